"""Linear separability: accuracy of a linear SVM in cross-validation."""

import numpy as np

from contrastive.metrics.folds import folds
from contrastive.metrics.linear import fit
from contrastive.metrics.types import Inputs, Score, proportion


def svm(inputs: Inputs) -> list[Score]:
    """Share of texts classified right by an SVM trained on the other folds; the scaler is fitted inside the fold."""
    classes = np.unique(inputs.labels, return_inverse=True)[1]
    parts = list(folds(inputs))
    members = np.ones((len(parts), len(classes)), bool)
    for fold, (_, test) in enumerate(parts):
        members[fold, test] = False
    found = fit(inputs.embeddings, classes, members, np.ones(len(parts)), loss="hinge", scaled=True)
    right = np.zeros(len(classes), bool)
    for fold, (_, test) in enumerate(parts):
        right[test] = found.predict(inputs.embeddings[test], fold) == classes[test]
    return [proportion("svm_accuracy", right)]
