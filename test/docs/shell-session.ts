import { type ChildProcess, spawn } from 'node:child_process'
import { until } from '../support/until.ts'

const MARK = 'end-of-commands'

/** One shell for all commands of a page, so that what one sets the next has. */
export class ShellSession {
  readonly #process: ChildProcess
  #output = ''

  /** `edge`: the path of the program that is run for this word. */
  constructor(directory: string, edge: string, env: Readonly<Record<string, string>>) {
    this.#process = spawn('sh', [], {
      cwd: directory,
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    this.#process.stdout!.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString()
    })
    this.#process.stdin!.write(`exec 2>&1\nedge() { '${process.execPath}' '${edge}' "$@"; }\n`)
  }

  /** What the commands print, on both outputs. */
  async run(commands: string): Promise<string> {
    this.#output = ''
    this.#process.stdin!.write(`${commands}\necho ${MARK}\n`)
    await until(() => this.#output.endsWith(`${MARK}\n`))
    return this.#output.slice(0, -MARK.length - 1)
  }

  end(): void {
    this.#process.stdin!.end()
  }
}
