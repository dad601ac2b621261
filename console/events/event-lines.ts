/** An event has at most 16 KiB, so a longer text without an end is not a stream of events. */
const MAX_UNREAD = 1024 * 1024

/** Reads the `data` of server-sent events as edge writes them: each on one line. */
export class EventLines {
  #rest = ''

  /** Returns the data of the events whose lines end in this text. */
  push(text: string): readonly string[] {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()!
    if (this.#rest.length > MAX_UNREAD) throw new Error('an event has no end')
    return lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice('data: '.length))
  }
}
