"""Text that no statistic made: it may say what it likes, but it compares nothing and holds no result."""

import re
from collections.abc import Iterable, Iterator

# What only a sentence made of the statistics may say.
COMPARING = re.compile(
    r"\b(better|worse|best|worst|highest|lowest|strongest|outperform\w*|beat(s|en|ing)?|improv(e[sd]?|ing|ements?)|"
    r"superior\w*|inferior\w*|surpass\w*|exceed\w*|gain(s|ed)?|significant\w*|winn(er|ers|ing)|wins|won|help(s|ed|ful)?|"
    r"ahead( of)?|boost\w*|dominat\w+|increas(e[sd]?|ing)|stronger|lead(s|ing)|led|advantage\w*|"
    r"(more|less|most|least) (accurate|robust|precise|effective|stable)|state of the art|"
    r"(higher|lower)(?! (priority|bound|limit|case|layers?|half|order|levels?|dimension\w*|temperatures?)\b))\b|"
    r"[优劣高低强弱好差快慢大小]于|更[好差高低优强佳]|最[佳好优差高强]|提升|提高|显著|超过|超越|领先|胜过|胜出|战胜|增益|优势|"
    r"比(?![较例值照对])[^，。；：]{1,20}?[好差高低优强佳](?![异值])",
    re.IGNORECASE,
)
# In exactly these words the report's own guards and captions speak of order.
OWN = re.compile(
    r"Expected best|期望最优值|检出概率低于五分之四|from the lowest to the highest|色带为最低到最高|"
    r"^The runs do not agree whether more is better: |"
    r"^Nothing says whether more is better, and nothing is ranked by it: |"
    r"不高于最大类别所占比例，而后者无需训练："
)
MARKS = re.compile(r"(?<!\\)(?:\\\\)*[*`\[|]")
HTML = re.compile(r"<[A-Za-z/!?]")
SCORES = r"accuracy|F1|NMI|ARI|precision|recall|准确率|精确率|召回率"
RESULT = re.compile(
    rf"± ?\d|(?<![\d.])[01]\.(?!00)\d{{3,}}|\b({SCORES})\b[^.;，。；]*?\d+(\.\d+| ?%)|准确率[^，。；]*\d", re.IGNORECASE
)


def prose(text: str) -> Iterator[str]:
    """Of the author: neither markup, nor a comparison, nor a result. Says what is wrong with it."""
    yield from worded(text, ())
    if result := RESULT.search(text):
        yield f"`{result[0]}` is said without a statistic: {text}"


def worded(text: str, names: Iterable[str]) -> Iterator[str]:
    """Of the report itself: it may name configurations, sections and scores that sound like a comparison."""
    if markup := MARKS.search(text) or HTML.search(text):
        yield f"`{markup[0]}` is markup of nobody: {text}"
    if not COMPARING.search(text):
        return
    rest = OWN.sub("", text)
    for name in sorted(set(names), key=len, reverse=True):
        if name.strip() and COMPARING.search(name):
            rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "", rest)
    if comparison := COMPARING.search(rest):
        yield f"`{comparison[0]}` is said without a statistic: {text}"
