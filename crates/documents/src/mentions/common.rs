//! Words that are never names, even if capitalised: words at the beginning of sentences, list items and cells
//! of tables.

/// The words in lower case, one line for each kind.
const COMMON: &str = "
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
a an the this that these those it its he she they we you i there here such same other another each every either neither
both all any some many most much more less few several no none one two three four five both half only own
my your our their his her who whom whose which what where when why how whether whatever whenever wherever however
and or but nor so yet for because since as although though unless until while if else then than once whereas despite
in on at by to from of off with without within into onto over under above below between among across through during
before after about against along around behind beside besides beyond inside outside near per via upon like unlike instead
not never always often sometimes usually typically generally normally currently previously originally formerly recently
also too very just even still already again again further furthermore moreover additionally alternatively otherwise
therefore thus hence consequently accordingly similarly likewise conversely specifically particularly especially notably
finally first firstly second secondly third thirdly next last lastly later now soon today
is are was were be been being am do does did done has have had having can could will would shall should must might
given based according due depending regardless assuming provided providing considering following
yes ok okay please thanks sorry
note notes notice warning warnings caution danger important tip tips hint info information attention example examples
todo fixme deprecated experimental stable stability unstable legacy optional required recommended default defaults
added adds removed removes changed changes fixed fixes updated updates introduced history version versions changelog
returns return returned type types value values name names description parameter parameters argument arguments option
options property properties field fields method methods function functions class classes event events error errors
object objects string strings number numbers boolean booleans array arrays list lists table tables key keys
usage overview introduction summary contents content section sections chapter page pages appendix figure step steps
part parts item items case cases result results output input source sources reference references see details
true false null undefined fulfills resolves rejects invoked caveat
use uses used using run runs running set sets setting settings get gets getting make makes making create creates created
creating add adding remove removing delete deletes deleting update updating change changing move moves moving copy copies
install installs installing start starts starting stop stops stopping open opens opening close closes closing read reads
reading write writes writing call calls called calling check checks checking click choose select enter press type go
let lets try tries trying ask asks tell tells keep keeps put puts take takes give gives find finds show shows look looks
ensure ensures make sure verify verifies avoid avoids allow allows enable enables enabled disable disables disabled
specify specifies specified specifying define defines defined configure configures configured pass passes passing
build builds building test tests testing deploy deploys send sends sending receive receives wait waits load loads loading
import imports export exports include includes included including contains containing represents indicates describes
provides supports requires needs works means prints print gets sets emitted throws thrown accepts applies converts
determines specifies generates calculates computes registers implements represents replaces deprecates
new old current previous future available possible common main general full simple basic advanced additional
documentation docs guide guides tutorial license copyright author authors contributors
consider suppose imagine remember learn understand follow explain welcome
unlike similar different equivalent identical compatible
";

pub(super) fn is_common(word: &str) -> bool {
    static WORDS: std::sync::LazyLock<std::collections::HashSet<&str>> =
        std::sync::LazyLock::new(|| COMMON.split_whitespace().collect());
    WORDS.contains(word.to_lowercase().as_str())
}
