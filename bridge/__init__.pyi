from .advice.answer import Advice as Advice
from .advice.answer import NoAnswerError as NoAnswerError
from .advice.fit import fit as fit
from .calibration.calibrate import calibrate as calibrate
from .comparison.compare import compare as compare
from .comparison.shards import merge as merge
from .comparison.sweep import sweep as sweep
from .measures.divergence import kl_from_q as kl_from_q
from .measures.divergence import kl_to_q as kl_to_q
from .measures.evidence import bridge_sampling as bridge_sampling
from .measures.evidence import log_evidence as log_evidence
from .measures.khat import pareto_khat as pareto_khat
from .measures.moments import moment_errors as moment_errors
from .methods.method import Fit as Fit
from .methods.method import Method as Method
from .methods.method import WeightedDraws as WeightedDraws
from .stan.stan_to_pymc import stan_model as stan_model
from .targets.pymc import pymc_target as pymc_target
from .targets.stan import stan_target as stan_target
from .targets.target import Target as Target

__version__: str
