import { printableText } from '../../text/printable.ts'
import { UsageSums } from '../../usage-log/usage-sums.ts'
import { ignoreClosed } from '../file-problem.ts'
import { countText } from '../text/text-table.ts'
import { printArgumentProblem } from '../usage-problem.ts'
import { readUsageArguments, USAGE_HELP, type UsageArguments, UsageReportProblem } from './usage-arguments.ts'
import { UsageLines } from './usage-lines.ts'
import { usageCsv, usageJson, usageTable } from './usage-output.ts'

/** Sums up the lines of usage logs. Returns the exit status. */
export async function usage(args: string[]): Promise<number> {
  process.stdout.off('error', ignoreClosed).on('error', ignoreClosed)
  try {
    const given = readUsageArguments(args)
    if (!given.isHelp) return await report(given)
    process.stdout.write(USAGE_HELP)
    return 0
  } catch (error) {
    if (!(error instanceof UsageReportProblem)) return printArgumentProblem(error, 'usage', USAGE_HELP)
    process.stderr.write(`${printableText(`edge usage: ${error.message}`)}\n`)
    return 1
  }
}

async function report(given: UsageArguments): Promise<number> {
  const lines = new UsageLines(given)
  const sums = new UsageSums(given.by, given.rule)
  await lines.read(given.sources, (line) => sums.add(line))
  const isEmpty = sums.total.requests.value === 0n
  // A table for people has nothing to show. A program gets a document without rows.
  if (isEmpty && (given.format === 'table' || isUnreadable(lines))) throw new UsageReportProblem(emptyProblem(given, lines))
  if (given.format === 'csv') process.stdout.write(usageCsv(sums))
  else if (given.format === 'json') process.stdout.write(usageJson(sums, lines))
  else process.stdout.write(usageTable(sums))
  if (isEmpty) process.stderr.write(`${printableText(`edge usage: ${emptyProblem(given, lines)}`)}\n`)
  for (const note of notesOn(lines, sums)) process.stderr.write(`${printableText(`edge usage: ${note}`)}\n`)
  return 0
}

/** Whether nothing of what the files have is a line of a usage log. */
function isUnreadable({ readable, unreadable }: UsageLines): boolean {
  return readable === 0 && unreadable > 0
}

function emptyProblem({ sources, rule }: UsageArguments, lines: UsageLines): string {
  const { files, unreadable } = lines
  if (files === 0) return `there is no file of this time in ${sources.join(', ')}; edge serve writes them to EDGE_USAGE_DIR`
  if (isUnreadable(lines)) return `these files are no usage log: not one of ${countText(unreadable, 'line')} could be read`
  return rule === undefined ? 'there is no request of this time in these files' : `there is no request of this time that ${rule} charged`
}

function* notesOn({ unreadable, damaged }: UsageLines, { others }: UsageSums): Generator<string> {
  if (unreadable > 0)
    yield `${countText(unreadable, 'line')} could not be read and ${unreadable === 1 ? 'is' : 'are'} left out, such as the last one of a process that was killed`
  yield* damaged
  if (others !== undefined) yield 'there are too many rows: the rest is summed up as (others); choose fewer keys with --by'
}
