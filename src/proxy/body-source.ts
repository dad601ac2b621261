/** How long a client may go on with a body that nobody reads before its connection is cut. */
export const LINGER_MS = 5000

/** A request's body while it comes. It is read from the first `resume` on. */
export interface BodySource {
  /** The last byte has come, read or not. */
  readonly isComplete: boolean
  /** It was read to its end. */
  readonly isRead: boolean
  /** Some of it is here, and is given to its reader as soon as whoever handles the request's head returns. */
  readonly comesNext: boolean
  /** Nothing more will come. */
  readonly isGone: boolean
  /** Gives everything that is read from now on to this reader, or throws it away. A reader that is set after the end is told of the end in a later turn. */
  giveTo(reader: BodyReader | undefined): void
  pause(): void
  resume(): void
  /** A client that sends nothing for so long is cut. 0: it never is. */
  limitIdle(ms: number): void
}

/** Who takes a request's body. */
export interface BodyReader {
  /** The bytes may be in a buffer that the next read overwrites: what is needed beyond the call is copied. */
  onData(chunk: Buffer): void
  onEnd(): void
  /** The client is gone, perhaps before the end. */
  onGone(): void
  /** Gets what any of the others throws: nobody else catches it, and it would end the worker. */
  abandon(error: unknown): void
}
