// SPDX-License-Identifier: BSD-3-Clause
// The cards that a benchmark may open: opening takes a card from all others, and closing it resets it.
#pragma once

#include "cli/sentence.h"
#include "gaudi/card/cards.h"

#include <string>
#include <vector>

namespace gaudi::cli::bench {

/// The cards that the user names, refused with their holders where they are in use; all free ones where none is named, and
/// a clause about each of the others in `left_alone`. Opens none.
OrSentence<std::vector<Card *>> find_free_cards(const Cards &cards, const std::vector<std::string> &names,
                                                std::vector<std::string> &left_alone);

} // namespace gaudi::cli::bench
