// Admission: how many requests may wait for the engine, and when to come back if there are too many.
//
// The engine chooses the order; this bounds how many it chooses among. A request waits from enter() until its first
// sequence is worked on. Thread-safe; a Place leaves by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

namespace colibri::server {

class Admission {
 public:
  /// `parallel`: sequences that the engine runs at the same time.
  Admission(size_t max_queue, size_t parallel) : max_queue_(max_queue), parallel_(parallel) {}

  class Place {
   public:
    explicit Place(Admission& admission) : admission_(admission) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    bool waiting() const { return !begun_; }
    void begin();
    /// The request is over; its time says how fast places become free.
    void finish(double seconds);

   private:
    Admission& admission_;
    bool begun_ = false;
  };

  /// Null when as many wait as may.
  std::unique_ptr<Place> enter();
  bool full() const;
  size_t waiting() const;
  size_t running() const;
  /// Seconds after which a request that was turned away should find a place, 1 to 60.
  int retry_after_s() const;

 private:
  bool is_full() const;
  const size_t max_queue_, parallel_;
  mutable std::mutex mutex_;
  size_t waiting_ = 0, running_ = 0;
  double seconds_ = 0;  // that a request takes, the newest counting most; 0: not known
};

}  // namespace colibri::server
