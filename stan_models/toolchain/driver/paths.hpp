// File names and the two ways in which a file can be wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace driver {

// A file that cannot be opened or understood; exit status NOINPUT or DATAERR.
struct missing_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct bad_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline bool ends_with(const std::string& s, const std::string& tail) {
  return s.size() >= tail.size()
         && s.compare(s.size() - tail.size(), tail.size(), tail) == 0;
}

// out.csv -> out_3.csv
inline std::string with_suffix(const std::string& path, const std::string& tag) {
  const auto slash = path.find_last_of('/');
  const auto dot = path.find_last_of('.');
  const bool no_extension
      = dot == std::string::npos || (slash != std::string::npos && dot < slash);
  const auto cut = no_extension ? path.size() : dot;
  return path.substr(0, cut) + "_" + tag + path.substr(cut);
}

}  // namespace driver
