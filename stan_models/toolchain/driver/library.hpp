// What the files of the C library share: the model behind a handle, and how an
// exception becomes a message.
#pragma once

#include <stan/math/rev.hpp>
#include <stan/model/model_base.hpp>

#include <cstring>
#include <memory>
#include <sstream>
#include <string>

struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, info, unconstrained_names, names[2][2];  // [tp][gq]
  int D, sizes[2][2];
};

// What the program print()s: to the callback, else to stdout.
void flush(std::ostringstream& messages);

// Runs f(messages); an exception becomes error_msg.
template <typename F>
int guarded(char** error_msg, F f) {
  // Threads that neither main nor TBB made have no autodiff tape.
  static thread_local stan::math::ChainableStack tape;
  static thread_local std::ostringstream messages;
  std::string error = "unknown exception";
  try {
    f(messages);
    flush(messages);
    return 0;
  } catch (const std::exception& e) {
    error = e.what();
  } catch (...) {
  }
  flush(messages);
  if (error_msg) *error_msg = strdup(error.c_str());
  return -1;
}


