// What the driver writes: CSV files and console lines.
#pragma once

#include "paths.hpp"

#include <stan/callbacks/logger.hpp>
#include <stan/callbacks/writer.hpp>

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
#include <string>
#include <vector>

namespace driver {

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

  bool is_valid() const noexcept { return file_ != nullptr; }
  size_t rows() const { return rows_; }
  double last_lp() const { return lead_; }  // first value of the last row
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
  // Pathfinder's matrices, one draw a column, and vectors, one draw. Stan's
  // virtual overloads for these changed in 2.3x; as a template on the static
  // type, which is how Pathfinder calls it, this is right before and after.
  template <typename Derived>
  void operator()(const Eigen::DenseBase<Derived>& draws) {
    if constexpr (Derived::IsVectorAtCompileTime)
      write_row(draws.size(), [&](size_t i) { return draws.derived().coeff(i); });
    else
      for (Eigen::Index j = 0; j < draws.cols(); ++j)
        write_row(draws.rows(), [&](size_t i) { return draws.derived().coeff(i, j); });
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
    lead_ = value(0);
    ++rows_;
  }

  std::unique_ptr<OutputFile> file_;
  int digits_ = 6;
  size_t rows_ = 0;
  double lead_ = 0;
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
  void error(const std::string& m) override {
    print(std::cerr, m);
    const auto start = m.find_first_not_of(" \n");
    if (start == std::string::npos) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    last_error_ = m.substr(start);
  }
  void error(const std::stringstream& m) override { error(m.str()); }
  void fatal(const std::string& m) override { error(m); }
  void fatal(const std::stringstream& m) override { error(m.str()); }

  // Stan logs as errors also what does not stop it (a rejected proposal), so
  // which one did is known only at the end. cmdstanpy passes on the lines that
  // start with Error or Exception.
  void stopped(const std::string& method) {
    if (!last_error_.empty() && !is_marked(last_error_))
      print(std::cerr, "Error: method=" + method + " stopped: " + last_error_);
  }
  static bool is_marked(const std::string& message) {
    return message.rfind("Error", 0) == 0 || message.rfind("Exception", 0) == 0;
  }

 private:
  void print(std::ostream& out, const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out << message + "\n" << std::flush;
  }
  std::mutex mutex_;
  std::string last_error_;
};

}  // namespace driver
