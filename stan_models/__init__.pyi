from .baselines import advi as advi
from .baselines import laplace as laplace
from .baselines import nuts as nuts
from .baselines import pathfinder as pathfinder
from .chains import StanChain as StanChain
from .coordinates import Coordinates as Coordinates
from .density import StanDensity as StanDensity
from .errors import StanCompileError as StanCompileError
from .errors import StanDataError as StanDataError
from .errors import StanError as StanError
from .errors import StanRunError as StanRunError
from .errors import ToolchainError as ToolchainError
from .program import StanProgram as StanProgram
from .programs import program_names as program_names
from .programs import program_path as program_path

__version__: str
