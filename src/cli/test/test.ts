import { parseArgs } from 'node:util'
import { readBounded, readFileBounded } from '../../files/whole-file.ts'
import { type FoundCase, MAX_CASES_BYTES, readCases } from '../../offline/cases/read-cases.ts'
import { runCase } from '../../offline/cases/run-case.ts'
import { planOf, readSimulatedSettings } from '../../offline/simulation/simulated-settings.ts'
import { Simulation, type SimulationOptions } from '../../offline/simulation/simulation.ts'
import type { Plan } from '../../policy/plan.ts'
import { printableText } from '../../text/printable.ts'
import { type Problem, problemLine } from '../../text/problem.ts'
import { ignoreClosed, printStartProblems, readingProblem } from '../file-problem.ts'
import { readBundleFile } from '../read-bundle.ts'
import { printArgumentProblem } from '../usage-problem.ts'
import { ReadableReport, type Reporter, TapReport } from './reports.ts'

/** Enough for a million callers, whatever the size of the service's store: memory is only allocated as far as a case uses it. */
const STORE_BYTES = 64 * 1024 ** 2

/** Runs cases on a bundle and reports which hold. Returns the exit status. */
export async function test(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  process.stdout.off('error', ignoreClosed).on('error', ignoreClosed)
  const { bundle: file, files, mode } = given
  const report: Reporter = given.isTap ? new TapReport() : new ReadableReport(hasColours())
  const bundle = await readBundleFile(file)
  const read = await readCaseFiles(files)
  if (bundle === undefined || read === undefined) return giveUp(report)
  const plan = planOf(bundle.bundle)
  const settings = await readSimulatedSettings(process.env, [plan])
  if (!('identification' in settings)) {
    process.stdout.write(report.giveUp())
    return printStartProblems('edge test', settings)
  }
  noteDomains(file, plan)
  if (mode === 'decision_service' && plan.needsBody) noteBodies(read)
  return (await runFiles(read, plan, { ...settings, mode, startMs: 0, storeBytes: STORE_BYTES }, report)) ? 0 : 1
}

interface Given {
  readonly bundle: string
  readonly files: readonly string[]
  readonly isTap: boolean
  readonly mode: SimulationOptions['mode']
}

const OPTIONS = { tap: { type: 'boolean' }, mode: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const

function readArguments(args: string[]): Given | number {
  try {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const { tap: isTap = false, mode = 'decision_service' } = values
    if (values.help) {
      process.stdout.write(TEST_HELP)
      return 0
    }
    const [bundle, ...files] = positionals
    if (mode !== 'decision_service' && mode !== 'reverse_proxy') {
      process.stderr.write(`edge test: --mode: expected decision_service or reverse_proxy, got ${JSON.stringify(mode)}\n`)
    } else if (bundle === undefined) process.stderr.write(`edge test: expected a bundle and at least one file of cases\n\n${TEST_HELP}`)
    else if (files.length === 0) process.stderr.write(`edge test: expected at least one file of cases after the bundle\n\n${TEST_HELP}`)
    else return { bundle, files, isTap, mode }
  } catch (error) {
    return printArgumentProblem(error, 'test', TEST_HELP)
  }
  return 1
}

async function runFiles(files: readonly CaseFile[], plan: Plan, options: SimulationOptions, report: Reporter): Promise<boolean> {
  let allHold = true
  process.stdout.write(report.begin(files.reduce((count, { cases }) => count + cases.length, 0)))
  for (const { file, cases } of files) {
    for (const found of cases) {
      const failure = await runCase(found, (startMs) => new Simulation(plan, { ...options, startMs }))
      allHold &&= failure === undefined
      process.stdout.write(report.describe({ file, found, failure }))
    }
  }
  process.stdout.write(report.end())
  return allHold
}

function giveUp(report: Reporter): number {
  process.stdout.write(report.giveUp())
  return 1
}

/** https://no-color.org: any value of NO_COLOR but the empty one disables colours. */
function hasColours(): boolean {
  return process.stdout.isTTY === true && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}

/** Notes that cases do not cover policies for the rate limit service, because its calls are not requests. */
function noteDomains(file: string, { policies }: Plan): void {
  const count = policies.filter(({ selector }) => selector.domain !== undefined).length
  if (count === 0) return
  const which = count === 1 ? '1 policy is' : `${count} policies are`
  process.stderr.write(`${file}: note: ${which} for the rate limit service, which cases do not call\n`)
}

/** Notes that rules that depend on bodies decide without them in this mode. */
function noteBodies(files: readonly CaseFile[]): void {
  for (const { file, cases } of files) {
    if (!cases.some(({ steps }) => steps.some(({ request }) => request.body))) continue
    process.stderr.write(
      printableText(`${file}: note: bodies are not read in decision_service; --mode reverse_proxy reads them`).concat('\n'),
    )
  }
}

export const TEST_HELP = `Usage: edge test [options] BUNDLE CASES...

Runs cases on a policy bundle: the requests of each, at the times it gives, on the engine that edge
serve uses, and compares the responses with the expected ones. Nothing is sent, and no time passes.
CASES are YAML or JSON files; - is standard input.

  --tap               print TAP 14 for programs
  --mode MODE         decision_service (requests as a gateway asks about them) or reverse_proxy
                      (bodies are read) [decision_service]

A case:

  - name: five at once, then one a second
    at: 2026-01-01T00:00:00Z            # the default
    steps:
      - request: { method: GET, uri: /api/x, headers: { x-api-key: alice } }
        times: 6
        expect:
          status: [200, 200, 200, 200, 200, 429]
          reason: token_bucket_exceeded
          headers: { Retry-After: 1 }
      - after: 1s
        request: { uri: /api/x, headers: { x-api-key: alice } }
        expect: { status: 200 }

Who sends a request, if a bundle has callers or reads claims (without either, nobody is known):

      - request: { uri: /api/x, claims: { sub: ada, groups: [team-search] } }   # of a token
      - request: { uri: /api/x, caller: { id: "key:7f3a", labels: { team: search } } }

Each case starts with full counters. EDGE_TRUSTED_PROXIES, EDGE_GEOIP_FILE, EDGE_IP_TYPE_FILE,
EDGE_TOR_EXITS_FILE, EDGE_GATEWAY_HINTS and EDGE_MAX_BODY_BYTES apply as in edge serve.
Exit status: 0 if all cases pass; 1 if one fails, or if the bundle or a file is not valid.
`

export interface CaseFile {
  readonly file: string
  readonly cases: readonly FoundCase[]
}

/** Reads all files and prints every problem. Returns undefined if one of them cannot be used. */
export async function readCaseFiles(files: readonly string[]): Promise<CaseFile[] | undefined> {
  const read: CaseFile[] = []
  for (const file of files) {
    const cases = await readCaseFile(file)
    if (cases !== undefined) read.push({ file, cases })
  }
  return read.length === files.length ? read : undefined
}

async function readCaseFile(file: string): Promise<readonly FoundCase[] | undefined> {
  let text: string
  try {
    const bytes = file === '-' ? await readBounded(process.stdin, MAX_CASES_BYTES) : await readFileBounded(file, MAX_CASES_BYTES)
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    const problem = error instanceof TypeError ? 'it is not valid UTF-8' : readingProblem(error)
    print(file, { path: '', message: problem })
    return undefined
  }
  const read = readCases(text)
  if ('cases' in read) return read.cases
  for (const problem of read.problems) print(file, problem)
  return undefined
}

function print(file: string, problem: Problem): void {
  process.stderr.write(`${problemLine(file, 'error', problem)}\n`)
}
