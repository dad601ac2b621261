import type { Cli } from '../support/service/cli.ts'
import type { Findings } from './findings.ts'

/** What the program says only when something of ours is broken. */
const BAD_EVENTS = new Set([
  'accept_failed',
  'counters_evicted',
  'crashed',
  'internal_error',
  'log_lines_lost',
  'settlement_failed',
  'state_evicted',
  'state_not_saved',
  'state_set_aside',
  'worker_cannot_listen',
  'worker_not_replaced',
  'worker_stuck',
  'worker_unfit',
])

/** Node's own words about its inspector. */
const INSPECTOR_WORDS = /^(?:Debugger |For help, see: |$)/

/** Reads the log of a process piece by piece, so that a long run neither keeps nor parses it again and again. */
export class LogReader {
  workerDeaths = 0
  #readBytes = 0

  read(cli: Cli, findings: Findings): void {
    const end = cli.stderr.lastIndexOf('\n') + 1
    const lines = cli.stderr.slice(this.#readBytes, end).split('\n')
    this.#readBytes = end
    for (const line of lines) this.#readLine(line, findings)
  }

  #readLine(line: string, findings: Findings): void {
    if (!line.startsWith('{')) {
      if (!INSPECTOR_WORDS.test(line)) findings.note(`edge wrote what is no log entry: ${line}`)
      return
    }
    const { event, level } = JSON.parse(line) as { event: string; level: string }
    if (event === 'worker_died') this.workerDeaths++
    if (level === 'fatal' || BAD_EVENTS.has(event)) findings.note(`edge logged ${line}`)
  }
}
