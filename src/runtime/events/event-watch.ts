/** Whether anybody watches events, in memory that all threads share: where nobody does, none is sent from thread to thread. */
export class EventWatch {
  readonly #word: Int32Array

  constructor(memory: SharedArrayBuffer) {
    this.#word = new Int32Array(memory)
  }

  get isOn(): boolean {
    return Atomics.load(this.#word, 0) === 1
  }

  set isOn(isOn: boolean) {
    Atomics.store(this.#word, 0, isOn ? 1 : 0)
  }
}
