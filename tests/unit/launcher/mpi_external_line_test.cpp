// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/mpi/external_line.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace hvd::launch::mpi;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

std::string inserted(const std::string& line) {
    const auto result = insert_shim(*hvd::split_shell_words(line), "SHIM");
    if (!result) {
        return result.error().message;
    }
    std::string text;
    for (const auto& word : *result) {
        text += (text.empty() ? "" : " ") + word;
    }
    return text;
}

}  // namespace

TEST_CASE("the shim stands before the program, behind every option with its values") {
    CHECK(inserted("mpirun -np 4 --oversubscribe --bind-to none python train.py -np 3") ==
          "mpirun -np 4 --oversubscribe --bind-to none SHIM python train.py -np 3");
    CHECK(inserted("mpirun --mca pml ob1 -x A=1 -H a:2,b ./train") ==
          "mpirun --mca pml ob1 -x A=1 -H a:2,b SHIM ./train");
    CHECK(inserted("mpiexec.hydra -genv A 1 -l -n 2 ./train") ==
          "mpiexec.hydra -genv A 1 -l -n 2 SHIM ./train");
}

TEST_CASE("a line that is not understood is refused with what to write") {
    for (const auto* line :
         {"mpirun --new-option x -np 2 ./train", "mpirun -np 2", "mpirun -np 2 ./a : -np 1 ./b"}) {
        const auto said = inserted(line);
        CAPTURE(line, said);
        CHECK(said.find("mpirun ... horovodrun PROGRAM") != std::string::npos);
    }
    CHECK(inserted("mpirun --new-option x ./train").find("--new-option is not known here") !=
          std::string::npos);
}
