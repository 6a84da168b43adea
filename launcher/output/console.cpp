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

ConsoleSink::ConsoleSink(RankPrinter printer,
                         ConsoleEvents& events,
                         std::optional<int> terminal_rank)
    : events_(events), printer_(std::move(printer)), terminal_rank_(terminal_rank) {
    for (auto& each : places_) {
        each.needs_returns = terminal_rank && ::isatty(each.fd) == 1;
    }
}

void ConsoleSink::take(const Chunk& chunk) {
    if (text_.size() >= kMaxText) {
        flush();
    }
    turn_to(chunk.stream);
    const auto begin = text_.size();
    printer_.print(chunk, Clock::now() - blocked_, text_);
    if (chunk.kind != Chunk::Kind::data || chunk.rank != terminal_rank_) {
        add_returns(begin);
    }
}

/// The text from there on is for a terminal that does not add them.
void ConsoleSink::add_returns(std::size_t begin) {
    if (!place(current_).needs_returns) {
        return;
    }
    const auto plain = text_.substr(begin);
    text_.resize(begin);
    for (const char each : plain) {
        if (each == '\n' && !text_.ends_with('\r')) {
            text_ += '\r';
        }
        text_ += each;
    }
}

void ConsoleSink::turn_to(OutputStream stream) {
    if (stream != current_) {
        flush();
        current_ = stream;
    }
}

void ConsoleSink::flush() {
    auto& target = place(current_);
    if (!text_.empty() && !target.is_broken) {
        const auto begin = Clock::now();
        const int error = write_all(target.fd, text_, [this] { ++events_.writes; });
        blocked_ += Clock::now() - begin;
        if (error != 0) {
            break_off(error);
        }
    }
    text_.clear();
}

std::optional<Sink::TimePoint> ConsoleSink::deadline() const {
    const auto due = printer_.deadline();
    return due ? std::optional(*due + blocked_) : due;
}

void ConsoleSink::time_passed(TimePoint now) {
    const auto unblocked = now - blocked_;
    for (const auto stream : {OutputStream::out, OutputStream::err}) {
        turn_to(stream);
        const auto begin = text_.size();
        printer_.print_due(stream, unblocked, text_);
        add_returns(begin);
    }
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
