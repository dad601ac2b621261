/** An event has 16 KiB at most: more without an end is no stream of events. */
const MAX_UNREAD = 1024 * 1024

/** Reads the `data` of server-sent events as edge writes them: one line each. */
export class EventLines {
  #rest = ''

  /** Returns the data of the events that end in this text. */
  push(text: string): readonly string[] {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()!
    if (this.#rest.length > MAX_UNREAD) throw new Error('an event has no end')
    return lines.filter((line) => line.startsWith('data: ')).map((line) => line.slice('data: '.length))
  }
}
