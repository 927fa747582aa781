// What the driver reads: data, inits and metrics (JSON, R dump), draws (CSV).
#pragma once

#include "paths.hpp"

#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/var_context.hpp>
#include <stan/math/prim/fun/Eigen.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace driver {

inline std::ifstream open_input(const std::string& path, const char* what) {
  struct stat info;
  errno = 0;
  std::ifstream in(path);
  if (in && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    in.setstate(std::ios::failbit);
    errno = EISDIR;
  }
  if (!in)
    throw missing_file(std::string("cannot open ") + what + " file \"" + path
                       + "\": " + std::strerror(errno));
  return in;
}

using Context = std::shared_ptr<stan::io::var_context>;

// Variables from JSON, or from the older R dump format by its extension.
inline Context read_context(const std::string& path, const char* what) {
  if (path.empty()) return std::make_shared<stan::io::empty_var_context>();
  auto in = open_input(path, what);
  try {
    if (ends_with(path, ".R")) return std::make_shared<stan::io::dump>(in);
    return std::make_shared<stan::json::json_data>(in);
  } catch (const std::exception& e) {
    throw bad_file(std::string("cannot read ") + what + " file \"" + path
                   + "\": " + e.what());
  }
}

// One input per chain: a comma-separated list, or x.json standing for
// x_1.json, x_2.json, …, or one file for all chains.
inline std::vector<Context> read_contexts(const std::string& path,
                                          const char* what, int chains, int id) {
  std::vector<std::string> paths;
  std::istringstream list(path);
  for (std::string item; std::getline(list, item, ',');) paths.push_back(item);
  if (paths.size() > 1 && static_cast<int>(paths.size()) != chains)
    throw bad_file(std::to_string(paths.size()) + " " + what + " files for "
                   + std::to_string(chains) + " chains: \"" + path + "\"");
  if (paths.size() <= 1) {
    const bool numbered
        = chains > 1 && !path.empty()
          && std::ifstream(with_suffix(path, std::to_string(id))).good();
    paths.assign(chains, path);
    for (int i = 0; numbered && i < chains; ++i)
      paths[i] = with_suffix(path, std::to_string(id + i));
  }
  std::vector<Context> contexts;
  for (const auto& p : paths) contexts.push_back(read_context(p, what));
  return contexts;
}

// The columns of a Stan CSV called `names`, in that order; one row a draw.
inline Eigen::MatrixXd read_draws(const std::string& path, const char* what,
                                  const std::vector<std::string>& names) {
  auto in = open_input(path, what);
  const auto fail = [&](const std::string& why) {
    return bad_file(std::string(what) + " file \"" + path + "\": " + why);
  };
  const auto split = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) {
      cell.erase(0, cell.find_first_not_of(" \t"));
      cell.erase(cell.find_last_not_of(" \t\r") + 1);
      cells.push_back(cell);
    }
    return cells;
  };

  std::vector<std::string> header;
  std::vector<size_t> columns;
  std::vector<double> values;
  size_t rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto cells = split(line);
    if (header.empty()) {
      header = cells;
      for (const auto& name : names) {
        const auto at = std::find(header.begin(), header.end(), name);
        if (at == header.end()) throw fail("no column for parameter " + name);
        columns.push_back(at - header.begin());
      }
      continue;
    }
    ++rows;
    if (cells.size() != header.size())
      throw fail("draw " + std::to_string(rows) + " has "
                 + std::to_string(cells.size()) + " values, expected "
                 + std::to_string(header.size()) + " (truncated?)");
    for (size_t column : columns) {
      char* end = nullptr;
      values.push_back(std::strtod(cells[column].c_str(), &end));
      if (cells[column].empty() || *end != '\0')
        throw fail("draw " + std::to_string(rows) + " has \"" + cells[column]
                   + "\" for " + header[column]);
    }
  }
  if (rows == 0) throw fail("no draws in it");
  return Eigen::Map<Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>(
      values.data(), rows, names.size());
}

}  // namespace driver
