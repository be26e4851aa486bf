"""Guess from the name of a score whether higher or lower values are better: one list of known words.

The last known word of a name decides: `error_detection_f1` is an f1, `accuracy_drop` a drop, `toxicity_score` toxicity.
"""

import re
from itertools import pairwise


def listed(words: str) -> list[str]:
    return words.split()


HIGHER = listed("""
    acc accuracies accuracy alive ami ap ari auc aupr auprc auroc avoidance bertscore bleu chrf cider comet
    completeness corr correct correlation cosine dcg detection dice efficiency elbo elo em f1 f2 fbeta fmeasure
    fps free fscore gain gains genauigkeit goodput harabasz harmlessness helpfulness hit hits homogeneity ic
    improvement iou jaccard kappa kendall likelihood loglikelihood map match matthews mcc meteor mfu miou mos mrr
    ndcg nmi npv pass passed pearson pesq ppv prauc precision prevention profit psnr purity qps quality r2 rating
    recall reduction resistance resolved return returns revenue reward rewards robustness roc rouge rsquared
    sacrebleu saved savings sensitivity silhouette similarity sisdr solved spearman specificity speed speedup spl
    ssim stoi success survival throughput tnr tpr tps trefferquote truthfulness uptime vmeasure win winrate wins
    准确率 精确率 召回率 正解率 再現率 適合率
""")
LOWER = listed("""
    absrel ade aic allocs assd backlog ber bias bic bits bouldin bounce bpb bpc bpt brier brisque bug bugs carbon
    cer chamfer churn clock co2 collision collisions contamination cost costs crash crashes crossentropy crps
    dauer dcf decline defects degradation delay der deterioration deviance discrepancy disparity dist distance
    distances distortion divergence dollars drop duration ece eer elapsed emd emissions energy epe err error
    errors excess exploitability fad fail failed failure failures false far fde fdr fehler fehlerquote fehlerrate
    fid flops fn fnr forgetting fp fpr frr fvd gap hallucination hallucinations harmful hausdorff hd95 hours hter
    incorrect invalid jailbreak jailbreaks jerk jitter jsd kid kl kwh lag latency laufzeit leakage logloss loss
    losses lost lpips mae makespan mape mase mcd mce medae medr mem memory mer minade minfde minutes miss misses
    mistakes mmd mortality mpjpe ms mse msle nats ned niqe nll nmse nrmse overfitting overhead overrefusal p50 p90
    p95 p99 per perplexity pinball ppl price ram rank readmission readmissions refusal refusals regret regrets
    residual residuals rmse rmsle rmspe rpe rtf runtime sec seconds secs slowdown smape sqrel surprisal ter time
    timeouts times toxic toxicity tpot ttft unfairness unsafe usd verlust violation violations vram wape
    wasserstein watts wer wrong xent 错误率 误差 损失 延迟 耗时 誤り率 誤差 損失
""")
PHRASES = {
    "reciprocal rank": True,
    "cross entropy": False,
    "attack success": False,
    "jailbreak success": False,
    "error correction": True,
    "bug fix": True,
    "between failures": True,
    "explained variance": True,
    "odds difference": False,
    "parity difference": False,
    "queue length": False,
    "ns op": False,
    "s it": False,
}  # whether higher is better
COUNTED = listed("""
    examples flops frames images items it iterations its queries requests samples sentences sequences steps texts tok
    tokens words
""")  # "X per second" is a throughput if X is one of these
DURATIONS = listed("s sec second seconds minute hour day")
COSTS = listed("time steps epochs iterations samples tokens rounds runs trials seconds episodes")  # "X to Y": of Y
NEGATIONS = listed("neg negative inverse inv non not")  # turn the word after them, and "1-" at the beginning does
SKIPPED = listed("brier likelihood log max mean median root")  # between the two, as in scikit-learn's names of scores
SPREADS = listed("std variance deviation")  # of another score: nothing is known
ENDINGS = ["accuracy", "error", "loss", "mse", "perplexity"]  # of a word: valloss, rmse
STATED = re.compile(
    r"(?<![a-z])(lower|smaller|less|higher|larger|more)[\W_]*(?:is|the)?[\W_]*better(?![a-z])", re.IGNORECASE
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
KNOWN = dict.fromkeys(HIGHER, True) | dict.fromkeys(LOWER, False)


def higher_is_better(score: str) -> bool | None:
    """Return whether higher values of a score are better, by its name; None if no word of the name is known."""
    if "↑" in score or "↓" in score:
        return "↑" in score
    if stated := STATED.search(score):
        return stated[1].lower() in ("higher", "larger", "more")
    words = words_of(re.split(r"@|[ _]at[ _]", score)[0])  # of ndcg@10, TPR@FPR=1% what stands before
    if "per" in words[1:-1]:
        place = words.index("per", 1)
        if words[place - 1] in COUNTED and words[place + 1] in DURATIONS:
            return True
        before = decided(words[:place])
        return decided(words[place + 1 :]) if before is None and words[place - 1] not in COUNTED else before
    to = words.index("to", 1) if "to" in words[1:-1] else 0
    if {*words[:to]} & {*COSTS} and ((goal := decided(words[to + 1 :])) is None or to == len(words) - 2):
        return None if goal is False else False  # time_to_accuracy; of time_to_failure nothing is known
    return decided(words)


def decided(words: list[str]) -> bool | None:
    """Return the direction of the last known word or phrase; None for a spread."""
    if {*SPREADS} & {*words} and "explained" not in words:
        return None
    for end in range(len(words), 0, -1):
        known = PHRASES.get(" ".join(words[max(0, end - 2) : end]), direction_of(words[end - 1]))
        if known is not None and not (words[end - 1] == "per" and end < len(words)):
            turned = (*SKIPPED, words[end - 1])
            return known != any(a in NEGATIONS and b in turned for a, b in pairwise(words[:end]))
    return None


def direction_of(word: str) -> bool | None:
    ending = next((ending for ending in ENDINGS if word.endswith(ending)), None)
    return KNOWN.get(word, None if ending is None else ending == "accuracy")


def words_of(name: str) -> list[str]:
    """Split a name into words in lower case: at other signs, in camelCase, without trailing digits but of f1, r2."""
    words = list[str]()
    name = re.sub(r"^1 ?[-−–] ?|^[-−–](?=\S)", "neg ", re.sub(r"/(?=(?:s|sec|second)$)", " per ", name))
    for part in re.findall(r"[^\W_]+", name):
        whole = without_digits(part.lower())
        parts = [whole] if direction_of(whole) is not None else [without_digits(p.lower()) for p in CAMEL.split(part)]
        words += filter(None, parts)
    return words


def without_digits(word: str) -> str:
    return word if word in KNOWN else word.rstrip("0123456789")
