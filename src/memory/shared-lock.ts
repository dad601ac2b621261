/**
 * Locks in shared memory, a word each: 0 if the lock is free, otherwise its owner's number, so that the locks of a dead thread can be
 * found and freed. Code between acquire and release must not allocate, throw or call out.
 */

const WAITING = 0x1_0000
const OWNER = 0xffff
const SPINS = 200
const WAIT_MS = 1

export function acquire(words: Int32Array, index: number, owner: number): void {
  if (Atomics.compareExchange(words, index, 0, owner) !== 0) acquireContended(words, index, owner)
}

/** Returns whether the lock was acquired, at once or within a few spins. Never waits for the holder. */
export function tryAcquire(words: Int32Array, index: number, owner: number): boolean {
  for (let spin = 0; spin < SPINS; spin++) {
    if (Atomics.load(words, index) === 0 && Atomics.compareExchange(words, index, 0, owner) === 0) return true
  }
  return false
}

export function release(words: Int32Array, index: number): void {
  if ((Atomics.exchange(words, index, 0) & WAITING) !== 0) Atomics.notify(words, index)
}

export function ownerOf(words: Int32Array, index: number): number {
  return Atomics.load(words, index) & OWNER
}

function acquireContended(words: Int32Array, index: number, owner: number): void {
  for (;;) {
    if (tryAcquire(words, index, owner)) return
    const held = Atomics.load(words, index)
    if (held === 0) continue
    // A thread that was terminated while it held the lock may be called once more before it is gone, and must not wait for itself.
    if ((held & OWNER) === owner) throw new Error('this thread holds the lock already')
    // This marks the lock as awaited, so that its holder wakes somebody on release; a lost race only spins again.
    if ((held & WAITING) !== 0 || Atomics.compareExchange(words, index, held, held | WAITING) === held) {
      Atomics.wait(words, index, held | WAITING, WAIT_MS)
    }
  }
}
