// Keeps the memory of freed tensors for the next ones.
//
// A training step allocates and frees the same blocks again and again.  Handing them back to the
// system costs a page fault per 4 KiB at the next step; leaving them to malloc's heap fragments it
// (half of it lay idle after ten steps, growing).  Blocks of 64 KiB and more are kept here by size
// class instead, an eighth of a power of two apart; smaller ones go to the allocator before.
#pragma once

namespace smelt::train {

/// Makes it LibTorch's CPU allocator, for the rest of the process.  Tensors that exist stay as they
/// are.  Calling it again changes nothing.
void keep_freed_blocks();

}  // namespace smelt::train
