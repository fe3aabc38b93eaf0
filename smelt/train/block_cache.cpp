#include "smelt/train/block_cache.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace smelt::train {
namespace {

constexpr std::size_t kSmallest = 64 << 10;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 << 20;

/// The next eighth of a power of two: a multiple of kPage from 32 KiB on.
std::size_t size_class(std::size_t bytes) {
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

class BlockCache final : public c10::Allocator {
 public:
  explicit BlockCache(c10::Allocator* before) : before_(before) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kSmallest) return before_->allocate(bytes);
    const std::size_t size = size_class(bytes);
    void* memory = take(size);
    if (!memory) memory = fresh(size);
    // LibTorch's raw_allocate() asks that a block is its own context.
    return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  /// Never destroyed: tensors may outlive every static.
  static BlockCache& instance() {
    static auto* cache = new BlockCache(c10::GetCPUAllocator());
    return *cache;
  }

 private:
  void* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& free = free_[size];
    if (free.empty()) return nullptr;
    void* memory = free.back();
    free.pop_back();
    return memory;
  }

  void* fresh(std::size_t size) {
    void* memory = std::aligned_alloc(size < kHugePage ? kPage : kHugePage, size);
    if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    // The rest behind the last whole one stays small pages: rounded up it would be a quarter more.
    if (size >= kHugePage) ::madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
    const std::lock_guard lock(mutex_);
    sizes_.emplace(memory, size);
    return memory;
  }

  /// A block that is not in `sizes_` is a small one of the allocator before, raw.
  static void give_back(void* memory) {
    if (!memory) return;
    BlockCache& cache = instance();
    const std::unique_lock lock(cache.mutex_);
    const auto size = cache.sizes_.find(memory);
    if (size != cache.sizes_.end()) {
      cache.free_[size->second].push_back(memory);
    } else {
      cache.before_->raw_deallocate(memory);
    }
  }

  c10::Allocator* before_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::unordered_map<void*, std::size_t> sizes_;  ///< of every block ever made; none is freed
};

}  // namespace

void keep_freed_blocks() {
  c10::SetCPUAllocator(&BlockCache::instance(), /*priority=*/1);
}

}  // namespace smelt::train
