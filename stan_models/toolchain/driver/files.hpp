// What the driver reads and writes.
#pragma once

#include <stan/callbacks/logger.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/var_context.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace driver {

// A file that cannot be opened or understood; exit status NOINPUT or DATAERR.
struct missing_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct bad_file : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Names to unlink if a signal ends the process. A deque: elements never move.
inline std::deque<std::string>& unfinished() {
  static std::deque<std::string> names;
  return names;
}

extern "C" inline void remove_unfinished(int signal) {
  for (const auto& name : unfinished())
    if (!name.empty()) unlink(name.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Written as PATH.part and renamed when complete, so that a file under its own
// name is a finished result; whatever an earlier run left there goes first.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : path_(path), part_(path) {
    struct stat info;
    const bool exists = stat(path.c_str(), &info) == 0;
    const bool device = exists && !S_ISREG(info.st_mode);  // /dev/null, a fifo
    if (!device) {
      part_ += ".part";
      if (exists) unlink(path.c_str());
    }
    stream_.open(part_, std::ios::trunc);
    if (!stream_)
      throw missing_file("cannot write output file \"" + path
                         + "\": " + std::strerror(errno));
    unfinished().push_back(device ? "" : part_);
    pending_ = &unfinished().back();
  }
  OutputFile(const OutputFile&) = delete;
  ~OutputFile() {
    if (pending_->empty()) return;
    stream_.close();
    unlink(part_.c_str());
    pending_->clear();
  }

  std::ostream& stream() { return stream_; }

  void publish() {
    stream_.close();
    if (!stream_)
      throw std::runtime_error("cannot write output file \"" + path_
                               + "\": is the disk full?");
    if (part_ != path_ && std::rename(part_.c_str(), path_.c_str()) != 0)
      throw std::runtime_error("cannot rename \"" + part_
                               + "\": " + std::strerror(errno));
    pending_->clear();
  }

 private:
  std::string path_, part_;
  std::ofstream stream_;
  std::string* pending_;
};

// Stan CSV. Without a file it swallows everything, as services expect of a
// writer that is not wanted.
class CsvWriter final : public stan::callbacks::writer {
 public:
  CsvWriter() = default;
  CsvWriter(const std::string& path, const std::string& header, int digits)
      : digits_(digits < 0 ? 6 : digits) {
    if (path.empty()) return;
    file_ = std::make_unique<OutputFile>(path);
    std::istringstream lines(header);
    for (std::string line; std::getline(lines, line);) (*this)(line);
  }

  size_t rows() const { return rows_; }
  void publish() {
    if (file_) file_->publish();
  }
  // Comments to put between the names and the first row.
  void after_names(std::vector<std::string> comments) {
    after_names_ = std::move(comments);
  }

  void operator()(const std::vector<std::string>& names) override {
    if (!file_ || names.empty()) return;
    auto& out = file_->stream();
    for (size_t i = 0; i < names.size(); ++i) out << (i ? "," : "") << names[i];
    out << '\n';
    for (const auto& comment : after_names_) (*this)(comment);
  }
  void operator()(const std::vector<double>& values) override {
    write_row(values.size(), [&](size_t i) { return values[i]; });
  }
  void operator()(
      const Eigen::Ref<Eigen::Matrix<double, -1, -1>>& columns) override {
    for (Eigen::Index j = 0; j < columns.cols(); ++j)
      write_row(columns.rows(), [&](size_t i) { return columns(i, j); });
  }
  void operator()() override { (*this)(std::string()); }
  void operator()(const std::string& comment) override {
    if (file_) file_->stream() << "# " << comment << '\n';
  }

 private:
  template <typename F>
  void write_row(size_t n, F value) {
    if (!file_ || n == 0) return;
    char number[40];
    line_.clear();
    for (size_t i = 0; i < n; ++i) {
      const int length
          = std::snprintf(number, sizeof number, "%.*g", digits_, value(i));
      if (i) line_ += ',';
      line_.append(number, length);
    }
    line_ += '\n';
    file_->stream() << line_;
    ++rows_;
  }

  std::unique_ptr<OutputFile> file_;
  int digits_ = 6;
  size_t rows_ = 0;
  std::string line_;
  std::vector<std::string> after_names_;
};

// Chains log from several threads; a reader of the console takes whole lines.
class Console final : public stan::callbacks::logger {
 public:
  void debug(const std::string&) override {}
  void debug(const std::stringstream&) override {}
  void info(const std::string& m) override { print(std::cout, m); }
  void info(const std::stringstream& m) override { print(std::cout, m.str()); }
  void warn(const std::string& m) override { print(std::cout, m); }
  void warn(const std::stringstream& m) override { print(std::cout, m.str()); }
  void error(const std::string& m) override { print(std::cerr, m); }
  void error(const std::stringstream& m) override { print(std::cerr, m.str()); }
  void fatal(const std::string& m) override { print(std::cerr, m); }
  void fatal(const std::stringstream& m) override { print(std::cerr, m.str()); }

 private:
  void print(std::ostream& out, const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out << message + "\n" << std::flush;
  }
  std::mutex mutex_;
};

inline bool ends_with(const std::string& s, const std::string& tail) {
  return s.size() >= tail.size()
         && s.compare(s.size() - tail.size(), tail.size(), tail) == 0;
}

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

// out.csv -> out_3.csv
inline std::string with_suffix(const std::string& path, const std::string& tag) {
  const auto slash = path.find_last_of('/');
  const auto dot = path.find_last_of('.');
  const bool no_extension
      = dot == std::string::npos || (slash != std::string::npos && dot < slash);
  const auto cut = no_extension ? path.size() : dot;
  return path.substr(0, cut) + "_" + tag + path.substr(cut);
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
