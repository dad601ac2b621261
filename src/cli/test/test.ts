import { parseArgs } from 'node:util'
import { runCase } from '../../cases/run-case.ts'
import type { Plan } from '../../policy/plan.ts'
import { printableText } from '../../printable-text.ts'
import { planOf } from '../../simulation/bundle-plan.ts'
import { readSimulatedSettings } from '../../simulation/simulated-settings.ts'
import { Simulation, type SimulationOptions } from '../../simulation/simulation.ts'
import { ignoreClosed } from '../closed-output.ts'
import { printStartProblems } from '../print-problems.ts'
import { readBundleFile } from '../read-bundle.ts'
import { TEST_HELP } from './help.ts'
import type { Reporter } from './outcome.ts'
import { type CaseFile, readCaseFiles } from './read-case-files.ts'
import { ReadableReport } from './readable-report.ts'
import { TapReport } from './tap-report.ts'

/** For a million callers, whatever the size of the service's store: only what a case uses takes memory. */
const STORE_BYTES = 64 * 1024 ** 2

/** Runs cases on a bundle and says which hold. */
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
    process.stderr.write(`edge test: ${(error as Error).message}\n`)
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

/** https://no-color.org: whatever its value, unless it is empty. */
function hasColours(): boolean {
  return process.stdout.isTTY === true && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
}

/** Calls of the rate limit service are no requests. */
function noteDomains(file: string, { policies }: Plan): void {
  const count = policies.filter(({ selector }) => selector.domain !== undefined).length
  if (count === 0) return
  const which = count === 1 ? '1 policy is' : `${count} policies are`
  process.stderr.write(`${file}: note: ${which} for the rate limit service, which cases do not call\n`)
}

/** Rules that depend on bodies decide without them in this mode. */
function noteBodies(files: readonly CaseFile[]): void {
  for (const { file, cases } of files) {
    if (!cases.some(({ steps }) => steps.some(({ request }) => request.body))) continue
    process.stderr.write(
      printableText(`${file}: note: bodies are not read in decision_service; --mode reverse_proxy reads them`).concat('\n'),
    )
  }
}
