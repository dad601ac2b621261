import type { ReadStream, WriteStream } from 'node:tty'
import { parseArgs } from 'node:util'
import { AdminProblem, UsageProblem } from '../text/caller-values.ts'
import type { AdminClient } from './admin-client.ts'
import { type AdminCommand, type AdminQuestion, ask, JSON_OPTION, showOnce } from './admin-command.ts'
import { TOP_HELP } from './help.ts'
import { topText } from './top-text.ts'

const INTERVAL_MS = 2000

/** Escape sequences that switch to the terminal's alternate screen without a cursor, and back. */
const ENTER = '\x1b[?1049h\x1b[?25l'
const LEAVE = '\x1b[?25h\x1b[?1049l'
const TOP_LEFT = '\x1b[H'
const CLEAR_LINE = '\x1b[K'
const CLEAR_BELOW = '\x1b[J'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const CTRL_C = '\x03'

export interface Terminal {
  readonly stdin: Pick<ReadStream, 'isTTY' | 'setRawMode' | 'on' | 'off' | 'resume' | 'pause'>
  readonly stdout: Pick<WriteStream, 'isTTY' | 'write' | 'rows' | 'columns'>
}

/** Shows the newest response every two seconds, until q or Ctrl-C; only once if the output is not a terminal. */
export async function showRepeatedly(
  client: AdminClient,
  question: AdminQuestion,
  terminal: Terminal = process,
  intervalMs = INTERVAL_MS,
): Promise<void> {
  if (question.isJson || !terminal.stdout.isTTY) return showOnce(client, question)
  let text = await ask(client, question) // if the first attempt fails, a token or a policy is wrong, and retrying would not help
  const screen = new Screen(terminal)
  try {
    screen.draw(text, 'q quits')
    while (await screen.pause(intervalMs)) {
      let note = 'q quits'
      try {
        text = await ask(client, question, screen.closing)
      } catch (error) {
        if (!(error instanceof AdminProblem)) throw error
        note = `${error.message}; q quits`
      }
      screen.draw(text, note)
    }
  } finally {
    screen.close()
  }
}

/** Takes over the whole terminal until it is closed. */
class Screen {
  readonly #terminal: Terminal
  readonly #closing = new AbortController()
  readonly #close = (): void => this.#closing.abort()
  readonly #onKeys = (keys: Buffer): void => {
    if (/[qQ]/.test(keys.toString()) || keys.includes(CTRL_C)) this.#close()
  }

  constructor(terminal: Terminal) {
    this.#terminal = terminal
    const { stdin, stdout } = terminal
    for (const signal of SIGNALS) process.on(signal, this.#close)
    if (stdin.isTTY) {
      stdin.setRawMode(true)
      stdin.on('data', this.#onKeys)
      stdin.resume()
    }
    stdout.write(ENTER)
  }

  /** Aborted when the operator quits. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** Draws the text, cut to the size of the terminal, and the note in the last line. */
  draw(text: string, note: string): void {
    if (this.closing.aborted) return
    // A terminal that does not know its size reports 0.
    const rows = this.#terminal.stdout.rows || 24
    const columns = this.#terminal.stdout.columns || 80
    const lines = text.split('\n').slice(0, rows - 1)
    const all = [...lines, ...Array<string>(rows - 1 - lines.length).fill(''), note]
    const shown = all.map((line) => `${[...line].slice(0, columns).join('')}${CLEAR_LINE}`)
    this.#terminal.stdout.write(`${TOP_LEFT}${shown.join('\r\n')}${CLEAR_BELOW}`)
  }

  /** Resolves to true when the time has passed, and to false as soon as the operator quits. */
  pause(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.closing.removeEventListener('abort', end)
        resolve(!this.closing.aborted)
      }
      const timer = setTimeout(end, ms)
      this.closing.addEventListener('abort', end)
      if (this.closing.aborted) end()
    })
  }

  close(): void {
    const { stdin, stdout } = this.#terminal
    for (const signal of SIGNALS) process.off(signal, this.#close)
    if (stdin.isTTY) {
      stdin.off('data', this.#onKeys)
      stdin.setRawMode(false)
      stdin.pause()
    }
    stdout.write(LEAVE)
  }
}

export const top: AdminCommand = {
  name: 'top',
  help: TOP_HELP,
  read(args) {
    const options = { ...JSON_OPTION, since: { type: 'string' } } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const [policy, rule, ...surplus] = positionals
    if (surplus.length > 0) throw new UsageProblem(`expected a policy and a rule at most, got ${surplus.join(', ')} too`)
    const { since } = values
    const query = { ...(policy !== undefined && { policy }), ...(rule !== undefined && { rule }), ...(since !== undefined && { since }) }
    return { request: { method: 'GET', path: 'top', query }, isJson: values.json, describe: topText }
  },
  show: showRepeatedly,
}
