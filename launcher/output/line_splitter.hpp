// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace hvd::launch {

/// Cuts what a rank writes into pieces that are printed whole: lines, and the steps of a progress
/// bar, which end in a carriage return. Works on bytes, so any encoding passes unchanged.
class LineSplitter final {
public:
    /// A line longer than this is given in pieces, so that a rank that never ends one costs no more
    /// memory than this.
    static constexpr std::size_t kMaxPiece = std::size_t{1} << 20;

    struct Piece {
        std::string_view bytes;     // with its \n or \r; valid during the call
        bool is_terminated = true;  // false: a last line without its end, or a cut of a long one
        bool is_line_feed_of_cr = false;  // the \n of a \r\n whose \r was given before
        bool is_fragment = false;         // the line goes on in another piece, which may be empty
        bool continues = false;           // the piece before it of the same line was a fragment
    };

    /// Calls `emit(Piece)` for everything that is complete now.
    template <class Emit>
    void feed(std::string_view bytes, Emit emit);

    /// Gives the begin of an unfinished line as a fragment, if there is any that was not given yet.
    template <class Emit>
    void show(Emit emit);

    /// Gives what is left as if its line ended here.
    template <class Emit>
    void finish(Emit emit);

    /// Whether `show` has something to give.
    [[nodiscard]] bool has_partial() const noexcept { return !partial_.empty(); }

private:
    /// Where the first piece of `bytes` ends, given where its first line does.
    [[nodiscard]] static std::size_t piece_end(std::string_view bytes, std::size_t line) noexcept;

    std::string partial_;  // of a line whose end has not come yet, without what was shown of it
    bool has_shown_ = false;
    bool after_cr_ = false;
};

template <class Emit>
void LineSplitter::feed(std::string_view bytes, Emit emit) {
    if (after_cr_ && bytes.starts_with('\n')) {
        emit(Piece{.bytes = bytes.substr(0, 1), .is_line_feed_of_cr = true});
        bytes.remove_prefix(1);
        after_cr_ = false;
    }
    // The line's end is looked for once per line, not once per piece: a progress bar may put
    // thousands of pieces into one line.
    auto line = bytes.find('\n');
    while (!bytes.empty()) {
        const auto size = piece_end(bytes, line);
        if (size == std::string_view::npos) {
            break;
        }
        if (partial_.empty()) {
            emit(Piece{.bytes = bytes.substr(0, size),
                       .continues = std::exchange(has_shown_, false)});
        } else {
            partial_.append(bytes.substr(0, size));
            emit(Piece{.bytes = partial_, .continues = std::exchange(has_shown_, false)});
            partial_.clear();
        }
        after_cr_ = bytes[size - 1] == '\r';
        bytes.remove_prefix(size);
        if (line != std::string_view::npos) {
            line = line >= size ? line - size : bytes.find('\n');
        }
    }
    if (bytes.empty()) {
        return;
    }
    after_cr_ = false;
    partial_.append(bytes);
    if (partial_.size() >= kMaxPiece) {
        finish(emit);
    }
}

template <class Emit>
void LineSplitter::show(Emit emit) {
    if (!partial_.empty()) {
        emit(Piece{.bytes = partial_,
                   .is_terminated = false,
                   .is_fragment = true,
                   .continues = std::exchange(has_shown_, true)});
        partial_.clear();
    }
}

template <class Emit>
void LineSplitter::finish(Emit emit) {
    if (!partial_.empty() || has_shown_) {
        emit(Piece{.bytes = partial_,
                   .is_terminated = false,
                   .continues = std::exchange(has_shown_, false)});
        partial_.clear();
    }
}

}  // namespace hvd::launch
