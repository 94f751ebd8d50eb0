"""What managers learnt from audits."""

from apps.api.serializers.rows import RowOut
from apps.training.models import ManagerRun


class ManagerRunOut(RowOut[ManagerRun]):
    """One fit of a manager's judgement to what was audited.

    `weights` and `before`: the rubric's weights by item; `adapter`: what was trained for a manager that is a language
    model, {name, uri, sha256}. `metrics`: `auc_before` as it judged (of an adapter: of what it would replace),
    `auc_after` refitted, both on audits it had not seen; `control` of the rubric as it is written, or of the model
    without an adapter; `gate`, the factor its unaudited word counts by; `influence` of its feedback on the work;
    `…_interval` of each at 90 %.
    """

    class Meta:
        model = ManagerRun
        fields = "id project manager kind state parent run audits before weights adapter metrics words created_at"
