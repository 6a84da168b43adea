// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/reduce/reducer.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace hvd::coll {

/// The result of a small collective at a member that can read the inputs of all members and does
/// the whole operation by itself. All users of the class get the same bits.
///
/// For all operations but Adasum; an alltoall has one segment.
class LocalResult {
public:
    /// `members`: of the set. Throws Exception as Reducer does.
    LocalResult(const Task& task, int members);

    /// Writes the outputs of the member at `place`, whose task it is. `inputs` says where the input
    /// of each place begins, with those of all segments in a row; it moves on while they are read.
    /// Of a broadcast only the root's is read, of a barrier none. Of an alltoall it says where the
    /// part for `place` begins. Outputs overlap no input, but
    /// those of a root may be its own segments' inputs.
    void write(const Task& task, int place, std::span<const std::byte*> inputs) const;

private:
    void reduce(const Task& task, std::span<const std::byte*> inputs) const;
    void reduce_own(const Task& task, std::size_t place, std::span<const std::byte*> inputs) const;

    std::optional<Reducer> reducer_;
};

}  // namespace hvd::coll
