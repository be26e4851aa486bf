"""The direction of a score from its name."""

import pytest

from ablate import directions
from ablate.directions import higher_is_better, listed

HIGHER = listed("""
    error_correction_rate bug_fix_rate mean_per_class_accuracy macro_per_label_f1 time_to_event_auc
    samples_to_labels_accuracy
    hallucination_auroc toxicity_f1 error_detection_f1 memory_recall applied_accuracy f1 r2 F1-score acc_(%) mAP50
    tokens_per_second train_samples_per_second steps/s ROUGE-L rougeL neg_mean_squared_error neg_log_loss log_likelihood
    mean_reciprocal_rank ndcg@10 valAccuracy eval_accuracy per_class_accuracy tokensPerSecond map_at_r success_rate
    error_reduction 1-ECE inverse_perplexity non-toxicity TPR@FPR=0.01 tpr_at_1%_fpr rank_IC neg_root_mean_squared_error
""")
LOWER = listed("""
    bits_per_byte fpr95 cost smape ter distortion davies_bouldin davies_bouldin_score neg_log_likelihood gpu_mem_gb
    hallucination_rate toxicity_score brier_score word_error_rate accuracy_drop valLoss val_loss trainloss rmse per
    per_token_loss loss_per_token test_per cost_per_token FPR95 EER eval/loss latency_ms negative_log_likelihood FOO↓
    avg_per_token_loss val_per_token_nll test/per_token_loss mean_per_joint_position_error time_to_failure_mae
    time_to_accuracy steps_to_90_acc -elbo jailbreak_success_rate samples_to_convergence
    1-SSIM neg_elbo bits/dim NIQE residual chamfer_dist mpjpe recall_error
    time_to_first_token mean_rank attack_success_rate ms_per_token false_negative_rate BPB perplexity cross_entropy FID
""")
UNKNOWN = listed("""
    return_std std_of_return 1-shot zeta score value mean metric points uniformity entropy 0 lr time_to_failure
    mean_time_to_failure     tokens_per_correct_answer
""")
HIGHER += ["loss (higher is better)", "zeta, larger = better"]
LOWER += [
    "score_lower_is_better",
    "points (lower=better)",
    "points, the lower the better",
    "score (lower is better)",
    "accuracy - less is better",
]
CASES = [*((name, True) for name in HIGHER), *((name, False) for name in LOWER), *((name, None) for name in UNKNOWN)]


@pytest.mark.parametrize(("score", "higher"), CASES)
def test_the_last_known_word_decides(score, higher):
    assert higher_is_better(score) is higher


def test_no_word_has_two_directions():
    assert not {*directions.HIGHER} & {*directions.LOWER}
    assert len({*directions.HIGHER, *directions.LOWER}) == len(directions.HIGHER) + len(directions.LOWER)
