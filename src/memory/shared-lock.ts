/**
 * Locks in shared memory, a word each: 0 when free, else its owner's number, so that what a dead thread held can be
 * told and freed. Nothing between acquire and release may allocate, throw or call out.
 */

const WAITING = 0x1_0000
const OWNER = 0xffff
const SPINS = 200
const WAIT_MS = 1

export function acquire(words: Int32Array, index: number, owner: number): void {
  if (Atomics.compareExchange(words, index, 0, owner) !== 0) acquireContended(words, index, owner)
}

/** Does not wait for whoever holds it. Returns whether it was free, or became so within a few spins. */
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
    // A thread that was ended in the middle may be called once more before it is gone, and must not wait for itself.
    if ((held & OWNER) === owner) throw new Error('this thread holds the lock already')
    // Announce the wait, so that the holder knows to wake somebody; a lost race only spins again.
    if ((held & WAITING) !== 0 || Atomics.compareExchange(words, index, held, held | WAITING) === held) {
      Atomics.wait(words, index, held | WAITING, WAIT_MS)
    }
  }
}
