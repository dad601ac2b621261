/** Holds a thread until as many as the gate was made for have come. */
export function passGate({ words, count }) {
  if (Atomics.add(words, 0, 1) + 1 === count) Atomics.notify(words, 0)
  for (let seen = Atomics.load(words, 0); seen < count; seen = Atomics.load(words, 0)) Atomics.wait(words, 0, seen)
}
