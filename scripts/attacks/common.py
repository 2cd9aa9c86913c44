"""What the attacks share: a server on its standard streams, commands, and how an attack is reported.

This file is not executable, so `scripts/attack` does not run it."""
import json, os, subprocess, sys, tempfile

KENNING = sys.argv[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("KENNING_")}


class Server:
    """A server on its standard streams."""

    def __init__(self, data, cwd=None):
        self.process = subprocess.Popen(
            [KENNING, "serve", "--data-dir", data], cwd=cwd or data, env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.sent = 0
        started = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                              "clientInfo": {"name": "attack", "version": "1"}})
        self.instructions = started.get("instructions", "")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        """Sends a request and returns its id."""
        self.sent += 1
        self.send({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        return self.sent

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def request(self, method, params):
        id = self.ask(method, params)
        while True:
            answer = self.answer()
            if answer.get("id") == id:
                return answer["result"]

    def call(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def store(self, number):
        reply = self.call("store", topic=f"Topic {number}", content=f"Content number{number} of many.")
        return not reply.get("isError", False)

    def end(self, by):
        if by is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(by)
        self.process.wait(timeout=20)


def kenning(data, *arguments):
    return subprocess.run([KENNING, "--data-dir", data, *arguments], env=ENVIRONMENT, cwd=data, text=True,
                          capture_output=True, timeout=120)


def run(*attacks):
    """Runs each attack in a data directory of its own. An attack returns whether the server held, and a figure."""
    failed = False
    for attack in attacks:
        with tempfile.TemporaryDirectory() as data:
            held, figure = attack(data)
        failed = failed or not held
        print(f"{'holds' if held else 'FAILS'}  {attack.__name__.replace('_', ' ')}: {figure}", flush=True)
    sys.exit(failed)
