"""Models of scikit-learn, XGBoost and LightGBM, as their exporters write them. It needs packages of its own."""

import sys

import numpy
from writer import Writer

F = numpy.float32


def sklearn_models(writer, x, classes, target, rows):
    from skl2onnx import to_onnx
    from sklearn import cluster, compose, decomposition, ensemble, feature_selection, impute, linear_model, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    two = (classes > 0).astype(numpy.int64)
    words = numpy.array(["ant", "bee", "cat"])[classes]
    classifiers = {
        "logistic": linear_model.LogisticRegression(max_iter=300),
        "logistic_ovr": linear_model.SGDClassifier(loss="log_loss", random_state=0),
        "perceptron": linear_model.Perceptron(random_state=0),
        "linear_svc": svm.LinearSVC(random_state=0),
        "svc_rbf": svm.SVC(kernel="rbf", probability=False),
        "svc_probability": svm.SVC(kernel="rbf", probability=True, random_state=0),
        "svc_poly": svm.SVC(kernel="poly", degree=2, coef0=1.0),
        "svc_sigmoid": svm.SVC(kernel="sigmoid"),
        "tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": ensemble.RandomForestClassifier(12, max_depth=5, random_state=0),
        "extra_trees": ensemble.ExtraTreesClassifier(7, max_depth=4, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=9, random_state=0),
        "hist_boosting": ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0),
        "ada": ensemble.AdaBoostClassifier(n_estimators=5, random_state=0),
        "bagging": ensemble.BaggingClassifier(n_estimators=4, random_state=0),
        "voting": ensemble.VotingClassifier([("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))], voting="soft", flatten_transform=False),
        "mlp": neural_network.MLPClassifier((7, 5), max_iter=80, random_state=0),
        "nearest": neighbors.KNeighborsClassifier(3),
        "bayes": naive_bayes.GaussianNB(),
        "bernoulli": naive_bayes.BernoulliNB(),
        "discriminant": LinearDiscriminantAnalysis(),
        "calibrated": CalibratedClassifierCV(linear_model.LogisticRegression(), cv=3),
    }
    for name, model in classifiers.items():
        for kind, labels in (("two", two), ("three", classes), ("words", words)):
            for zipmap in (True, False) if name in ("logistic", "forest", "svc_probability") else (False,):
                try:
                    fitted = model.fit(x, labels)
                    options = {id(fitted): {"zipmap": zipmap}} if hasattr(fitted, "predict_proba") else None
                    exported = to_onnx(fitted, x[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})
                except Exception as error:
                    print(f"not exported: {name} {kind}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
                    continue
                writer.add(f"{name}_{kind}_{int(zipmap)}", exported, {"X": rows}, {"X": rows[:1]})
    regressors = {
        "linear": linear_model.LinearRegression(), "lasso": linear_model.Lasso(0.1), "poisson": linear_model.PoissonRegressor(),
        "svr": svm.SVR(), "svr_linear": svm.SVR(kernel="linear"), "nu_svr": svm.NuSVR(kernel="poly"),
        "tree_regressor": tree.DecisionTreeRegressor(max_depth=4, random_state=0), "forest_regressor": ensemble.RandomForestRegressor(9, max_depth=4, random_state=0),
        "boosting_regressor": ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
        "hist_regressor": ensemble.HistGradientBoostingRegressor(max_iter=6, random_state=0), "mlp_regressor": neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=80, random_state=0),
        "nearest_regressor": neighbors.KNeighborsRegressor(3, weights="distance"), "ada_regressor": ensemble.AdaBoostRegressor(n_estimators=5, random_state=0),
    }
    one_class = {"one_class": svm.OneClassSVM(), "isolation": ensemble.IsolationForest(n_estimators=6, random_state=0), "local_outliers": neighbors.LocalOutlierFactor(5, novelty=True)}
    for name, model in {**regressors, **one_class}.items():
        try:
            fitted = model.fit(x, numpy.abs(target) if name == "poisson" else target)
            exported = to_onnx(fitted, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
        except Exception as error:
            print(f"not exported: {name}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            continue
        writer.add(name, exported, {"X": rows})
    gaps = rows.copy()
    gaps[::3, 1] = numpy.nan
    transformers = {
        "standard": preprocessing.StandardScaler(), "robust": preprocessing.RobustScaler(), "min_max": preprocessing.MinMaxScaler(clip=True), "max_abs": preprocessing.MaxAbsScaler(),
        "l1": preprocessing.Normalizer("l1"), "l2": preprocessing.Normalizer("l2"), "max": preprocessing.Normalizer("max"), "binarizer": preprocessing.Binarizer(threshold=0.2),
        "polynomial": preprocessing.PolynomialFeatures(2), "bins": preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), "pca": decomposition.PCA(2),
        "svd": decomposition.TruncatedSVD(2), "k_means": cluster.KMeans(3, n_init=2, random_state=0), "select": feature_selection.SelectKBest(k=2),
        "imputer": impute.SimpleImputer(), "knn_imputer": impute.KNNImputer(n_neighbors=2), "power": preprocessing.PowerTransformer(),
        "pipeline": pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler(), linear_model.LogisticRegression()),
        "columns": compose.ColumnTransformer([("a", preprocessing.StandardScaler(), [0, 1]), ("b", preprocessing.MinMaxScaler(), [2])]),
    }
    for name, model in transformers.items():
        try:
            fitted = model.fit(x, classes)
            exported = to_onnx(fitted, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
        except Exception as error:
            print(f"not exported: {name}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            continue
        writer.add(name, exported, {"X": gaps if name in ("imputer", "pipeline", "knn_imputer") else rows})


def texts(writer):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType
    from sklearn import preprocessing
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    lines = numpy.array(["the cat sat on the mat", "a dog ran", "the dog sat", "cats and dogs ran on"], object)
    for name, model in (("count", CountVectorizer()), ("count_pairs", CountVectorizer(ngram_range=(1, 2), binary=True)), ("tf_idf", TfidfVectorizer()), ("tf_idf_sublinear", TfidfVectorizer(sublinear_tf=True, norm="l1"))):
        exported = to_onnx(model.fit(lines), initial_types=[("X", StringTensorType([None]))], target_opset=18)
        writer.add(name, exported, {"X": lines}, {"X": lines[:1]})
    kinds = numpy.array([["red", "s"], ["blue", "m"], ["red", "l"], ["green", "s"]], object)
    for name, model in (("one_hot", preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore")), ("ordinal", preprocessing.OrdinalEncoder())):
        exported = to_onnx(model.fit(kinds), initial_types=[("X", StringTensorType([None, 2]))], target_opset=18)
        writer.add(f"{name}_words", exported, {"X": kinds})
    numbers = numpy.array([[1, 5], [2, 6], [1, 7], [3, 5]], numpy.int64)
    exported = to_onnx(preprocessing.OneHotEncoder(sparse_output=False).fit(numbers), initial_types=[("X", Int64TensorType([None, 2]))], target_opset=18)
    writer.add("one_hot_numbers", exported, {"X": numbers})
    exported = to_onnx(preprocessing.LabelEncoder().fit(kinds[:, 0]), initial_types=[("X", StringTensorType([None]))], target_opset=18)
    writer.add("labels", exported, {"X": kinds[:, 0]})


def boosted(writer, x, classes, target, rows):
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("X", FloatTensorType([None, x.shape[1]]))]
    gaps = rows.copy()
    gaps[::4, 0] = numpy.nan
    for kind, labels in (("two", (classes > 0).astype(int)), ("three", classes)):
        for name, model, convert in (("xgboost", xgboost.XGBClassifier(n_estimators=7, max_depth=3), onnxmltools.convert_xgboost),
                                     ("lightgbm", lightgbm.LGBMClassifier(n_estimators=7, min_child_samples=2, verbose=-1), onnxmltools.convert_lightgbm)):
            for zipmap in (True, False) if name == "lightgbm" else (False,):
                more = {"zipmap": zipmap} if name == "lightgbm" else {}
                exported = convert(model.fit(x, labels), initial_types=types, target_opset=15, **more)
                writer.add(f"{name}_{kind}_{int(zipmap)}", exported, {"X": rows}, {"X": gaps})
    for name, model, convert in (("xgboost_regressor", xgboost.XGBRegressor(n_estimators=7, max_depth=3), onnxmltools.convert_xgboost),
                                 ("xgboost_poisson", xgboost.XGBRegressor(n_estimators=4, objective="count:poisson"), onnxmltools.convert_xgboost),
                                 ("lightgbm_regressor", lightgbm.LGBMRegressor(n_estimators=7, min_child_samples=2, verbose=-1), onnxmltools.convert_lightgbm)):
        exported = convert(model.fit(x, numpy.abs(target)), initial_types=types, target_opset=15)
        writer.add(name, exported, {"X": rows}, {"X": gaps})


def main():
    random = numpy.random.default_rng(7)
    x = random.normal(size=(60, 4)).astype(F)
    classes = (x[:, 0] + 0.5 * x[:, 1] > 0).astype(int) + (x[:, 2] > 0.4)
    target = x[:, 0] * 2 - x[:, 3] + 0.1 * random.normal(size=60)
    rows = random.normal(size=(9, 4)).astype(F)
    writer = Writer("learning")
    sklearn_models(writer, x, classes, target, rows)
    texts(writer)
    for part in (boosted,):
        try:
            part(writer, x, classes, target, rows)
        except Exception as error:
            print(f"not exported: {part.__name__}: {str(error)[:200]}", file=sys.stderr)
    writer.finish()
