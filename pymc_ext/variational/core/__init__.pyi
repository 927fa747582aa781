from .algorithm import Algorithm as Algorithm
from .algorithm import Fitted as Fitted
from .effort import Effort as Effort
from .posterior import Posterior as Posterior
from .posterior import fresh_draws as fresh_draws
from .result import FitResult as FitResult
