import { parseArgs } from 'node:util'
import { policiesOf } from '../bundle/shared-bundle.ts'
import { backendHostsOf, readSettings, type ServerConfig } from '../config/config.ts'
import { modelWithoutHints, neverApplying } from '../policy/review/absent-values.ts'
import { unverifiedIdentities } from '../policy/review/caller-escapes.ts'
import { heldRuleNote, heldRules, madeUpKeyWarnings, reserveNotes, waitNotes } from '../policy/review/warnings.ts'
import { slotCountIn } from '../store/table/table-layout.ts'
import { VALIDATE_HELP } from './help.ts'
import { readBundleFile } from './read-bundle.ts'
import { printArgumentProblem } from './usage-problem.ts'

export async function validate(args: string[]): Promise<number> {
  const given = readArguments(args)
  if (typeof given === 'number') return given
  const { config, problems } = readSettings(['storeBytes', 'backendHosts', 'backendUrl', 'gatewayHints'], process.env)
  for (const problem of problems) process.stderr.write(`edge validate: ${problem}\n`)
  let status = problems.length > 0 ? 1 : 0
  for (const file of given.files) if (!(await validateFile(file, given.mode, config))) status = 1
  return status
}

const OPTIONS = { mode: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const
const MODES: readonly (string | undefined)[] = ['decision_service', 'reverse_proxy', undefined]

type ValidateSettings = Partial<Pick<ServerConfig, 'storeBytes' | 'backendHosts' | 'backendUrl' | 'gatewayHints'>>

interface ValidateArguments {
  readonly files: readonly string[]
  /** If undefined, notes about decision_service are printed as for that mode, which they name. */
  readonly mode: string | undefined
}

function readArguments(args: string[]): ValidateArguments | number {
  try {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const { help: isHelp = false, mode } = values
    if (isHelp) {
      process.stdout.write(VALIDATE_HELP)
      return 0
    }
    if (!MODES.includes(mode))
      process.stderr.write(`edge validate: --mode: expected decision_service or reverse_proxy, got ${JSON.stringify(mode)}\n`)
    else if (positionals.length > 0) return { files: positionals, mode }
    else process.stderr.write(`edge validate: expected at least one file\n\n${VALIDATE_HELP}`)
  } catch (error) {
    return printArgumentProblem(error, 'validate', VALIDATE_HELP)
  }
  return 1
}

/** A setting with a bad value is undefined. Without settings that say where backends may be, nobody knows where the bundle will be used. */
async function validateFile(file: string, mode: string | undefined, settings: ValidateSettings): Promise<boolean> {
  const { storeBytes, backendHosts, backendUrl, gatewayHints } = settings
  const isProxy = mode === 'reverse_proxy'
  const hosts = backendHosts === undefined && backendUrl === undefined ? undefined : backendHostsOf(settings)
  const read = await readBundleFile(file, { isProxy, isStrict: true, hosts })
  if (read === undefined) return false
  const warnings = storeBytes === undefined ? [] : madeUpKeyWarnings(read.limits, slotCountIn(storeBytes))
  for (const warning of warnings) process.stderr.write(`${file}: warning: ${warning}\n`)
  if (!isProxy) for (const rule of heldRules(read.limits)) process.stderr.write(`${file}: note: ${heldRuleNote(rule)}\n`)
  if (mode === 'decision_service' && read.routeCount > 0)
    process.stderr.write(`${file}: note: in decision_service routes have no effect, because it forwards nothing\n`)
  if (mode === 'decision_service')
    for (const notes of [reserveNotes, waitNotes])
      for (const note of notes(policiesOf(read.bundle))) process.stderr.write(`${file}: note: ${note}\n`)
  if (mode === 'decision_service' && gatewayHints !== true)
    for (const { message, path } of neverApplying(policiesOf(read.bundle), modelWithoutHints))
      process.stderr.write(`${file}: note: ${path}: ${message}\n`)
  const unverified = isProxy && read.bundle.callers === undefined ? unverifiedIdentities(policiesOf(read.bundle)) : undefined
  if (unverified !== undefined) process.stderr.write(`${file}: note: ${unverified}\n`)
  const { version, policyCount } = read.bundle
  const count = policyCount === 1 ? '1 policy' : `${policyCount} policies`
  process.stdout.write(`${file}: ok, version ${version}, ${count}\n`)
  return true
}
