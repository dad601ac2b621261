/** Beyond this a wait within any useful time is unlikely, and what waits holds memory. */
const MAX_WAITING = 1000

/** What a queue reports. */
export interface QueueListener {
  /** So many requests wait for a connection. */
  onQueueLength(count: number): void
  /** A request waited so long for the connection that it got. */
  onQueueWait(seconds: number): void
}

interface Place {
  readonly timer: NodeJS.Timeout
  readonly sinceMs: number
}

/** Requests that wait for a connection to the backend, first come, first served. Bounded in length and time. */
export class ConnectionQueue<Seeker extends { onNoRoom(detail: string): void }> {
  readonly #waitMs: number
  readonly #listener: QueueListener
  readonly #waiting = new Map<Seeker, Place>()
  /** Refused already, because the queue is full; they are told in a later turn. */
  readonly #refused = new Map<Seeker, NodeJS.Timeout>()

  constructor(waitMs: number, listener: QueueListener) {
    this.#waitMs = waitMs
    this.#listener = listener
  }

  get first(): Seeker | undefined {
    return this.#waiting.size === 0 ? undefined : this.#waiting.keys().next().value
  }

  add(seeker: Seeker): void {
    if (this.#waiting.size >= MAX_WAITING) {
      const timer = setTimeout(() => {
        this.#refused.delete(seeker)
        seeker.onNoRoom(`all connections are in use, and ${MAX_WAITING} requests wait for one`)
      }, 0)
      this.#refused.set(seeker, timer)
      return
    }
    const timer = setTimeout(() => {
      this.remove(seeker)
      seeker.onNoRoom(`all connections were in use for ${this.#waitMs} ms`)
    }, this.#waitMs)
    this.#waiting.set(seeker, { timer, sinceMs: performance.now() })
    this.#listener.onQueueLength(this.#waiting.size)
  }

  /** It has its connection. */
  serve(seeker: Seeker): void {
    this.#listener.onQueueWait((performance.now() - this.#waiting.get(seeker)!.sinceMs) / 1000)
    this.remove(seeker)
  }

  /** It does not need one any more. */
  remove(seeker: Seeker): void {
    clearTimeout(this.#refused.get(seeker))
    this.#refused.delete(seeker)
    const place = this.#waiting.get(seeker)
    if (place === undefined) return
    clearTimeout(place.timer)
    this.#waiting.delete(seeker)
    this.#listener.onQueueLength(this.#waiting.size)
  }

  clear(): void {
    for (const seeker of [...this.#waiting.keys(), ...this.#refused.keys()]) this.remove(seeker)
  }
}
