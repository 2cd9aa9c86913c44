// What the views are shown: made, not drawn at random, so that every run sees the same. The test stores it
// before it looks.

export const TAG = "view-test";
export const MARKUP = '<img src=x onerror="parent.postMessage(1)"><b>bold</b>';
export const FORMULA = '=HYPERLINK("http://example.invalid","open, please")';

const AREAS = ["billing", "deploys", "search", "storage", "sign-in", "mail", "reports"];
const ADVICE = [
  "Retry a failed call twice, then tell the person on duty.",
  "The nightly run starts at 02:00 and holds the lock for about four minutes; whoever needs the table before that waits, and is told so.",
  "Never widen the timeout.\nFind out why it was reached.",
  "Größen sind in KiB; ελληνικά stays as it was written.",
];

export const ENTRIES = Array.from({ length: 847 }, (_, n) => ({
  topic: `${AREAS[(n * 5) % AREAS.length]} note ${String((n * 389) % 847).padStart(3, "0")}`,
  content: ADVICE[n % ADVICE.length],
  tags: [TAG, AREAS[n % AREAS.length]],
}));
// Both come first when sorted by topic.
Object.assign(ENTRIES[3], { topic: "!a <i>topic</i>", content: MARKUP });
Object.assign(ENTRIES[500], { topic: "!b formula", content: FORMULA });

const SERVICES = ["gateway", "payments", "ledger", "mailer", "search", "catalog", "accounts", "reports", "scheduler", "archive"];
const TEAMS = ["Team North", "Team South", "Team <b>East</b>"];
const DEPENDENCIES = SERVICES.flatMap((subject, n) => [
  { subject, predicate: "depends on", object: SERVICES[(n * 3 + 1) % SERVICES.length] },
  { subject, predicate: "owned by", object: TEAMS[n % TEAMS.length] },
]);
const RUNS = Array.from({ length: 12 }, (_, n) => ({ subject: `host-${n}`, predicate: "runs", object: SERVICES[n % 5] }));
// The hosts come first, as the newest triples of a server do; the teams are met by expanding only.
export const TRIPLES = [...DEPENDENCIES, ...RUNS].filter(({ subject, object }) => subject !== object);
