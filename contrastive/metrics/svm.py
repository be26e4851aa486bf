"""Linear separability: accuracy of a linear SVM in cross-validation."""

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from contrastive.metrics.folds import folds
from contrastive.metrics.types import Inputs, Score, proportion


def svm(inputs: Inputs) -> list[Score]:
    """Share of texts classified right by an SVM trained on the other folds; the scaler is fitted inside the fold."""
    right = np.zeros(len(inputs.labels), bool)
    for train, test in folds(inputs):
        classifier = make_pipeline(StandardScaler(), LinearSVC(dual="auto", random_state=0, max_iter=2000))
        classifier.fit(inputs.embeddings[train], inputs.labels[train])
        right[test] = classifier.predict(inputs.embeddings[test]) == inputs.labels[test]
    return [proportion("svm_accuracy", right)]
