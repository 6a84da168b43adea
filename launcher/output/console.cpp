// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/console.hpp"

#include "launcher/output/write_all.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// Short lines grow by their prefixes; beyond this the text is written before more is added.
constexpr std::size_t kMaxText = std::size_t{256} << 10;

}  // namespace

ConsoleSink::ConsoleSink(int ranks,
                         const LinePrefix& prefix,
                         const std::vector<RankPlace>& places,
                         ConsoleEvents& events)
    : events_(events),
      places_{Place{STDOUT_FILENO, RankPrinter(ranks, OutputStream::out, prefix, places)},
              Place{STDERR_FILENO, RankPrinter(ranks, OutputStream::err, prefix, places)}} {}

void ConsoleSink::take(const Chunk& chunk) {
    if (chunk.stream != current_ || text_.size() >= kMaxText) {
        flush();
        current_ = chunk.stream;
    }
    place(current_).printer.print(chunk, text_);
}

void ConsoleSink::flush() {
    auto& target = place(current_);
    if (!text_.empty() && !target.is_broken) {
        const int error = write_all(target.fd, text_, [this] { ++events_.writes; });
        if (error != 0) {
            break_off(error);
        }
    }
    text_.clear();
}

/// Where both streams are one, the reader of both has gone.
void ConsoleSink::break_off(int error_number) {
    const bool are_one = console_streams_are_one();
    for (auto& each : places_) {
        each.is_broken = each.is_broken || are_one || &each == &place(current_);
    }
    events_.on_error(are_one ? OutputStream::out : current_, error_number);
}

bool console_streams_are_one() {
    struct stat out {};
    struct stat err {};
    return ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

}  // namespace hvd::launch
