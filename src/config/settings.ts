import { secretNameOf } from '../secrets/secret-value.ts'
import { show } from '../text/problem.ts'
import { KnownWords } from '../text/suggest.ts'
import { isServiceAddress, type Setting } from './config-values.ts'
import { BUNDLE_SETTINGS, COUNTERS_SETTINGS, OPERATORS_SETTINGS, REDIS_SETTINGS, REPORTS_SETTINGS } from './instance-settings.ts'
import { BACKEND_SETTINGS, CALLERS_SETTINGS, LISTENING_SETTINGS, TIMEOUTS_SETTINGS, TLS_SETTINGS } from './serving-settings.ts'

/** Every setting by its name in the source, in the order of the groups. */
export const SETTINGS = {
  ...LISTENING_SETTINGS,
  ...TLS_SETTINGS,
  ...BUNDLE_SETTINGS,
  ...BACKEND_SETTINGS,
  ...CALLERS_SETTINGS,
  ...COUNTERS_SETTINGS,
  ...REDIS_SETTINGS,
  ...OPERATORS_SETTINGS,
  ...REPORTS_SETTINGS,
  ...TIMEOUTS_SETTINGS,
}

interface SettingGroup {
  readonly title: string
  readonly settings: Readonly<Record<string, Setting<unknown>>>
}

/** The groups in which `edge serve --help` and docs/configuration.md list the settings: first what everybody sets, last what hardly anybody does. */
export const SETTING_GROUPS: readonly SettingGroup[] = [
  { title: 'Mode and listeners', settings: LISTENING_SETTINGS },
  { title: 'TLS', settings: TLS_SETTINGS },
  { title: 'Policy bundle', settings: BUNDLE_SETTINGS },
  { title: 'Backend of reverse_proxy', settings: BACKEND_SETTINGS },
  { title: 'Callers and gateways', settings: CALLERS_SETTINGS },
  { title: 'Workers and counters', settings: COUNTERS_SETTINGS },
  { title: 'Redis', settings: REDIS_SETTINGS },
  { title: 'Operators', settings: OPERATORS_SETTINGS },
  { title: 'Logs, events and traces', settings: REPORTS_SETTINGS },
  { title: 'Timeouts and shutdown', settings: TIMEOUTS_SETTINGS },
]

/** A variable that begins as settings do, and that nothing reads. Its value may be a secret, and is not kept. */
export interface UnknownVariable {
  /** As a message shows it. */
  readonly name: string
  /** The setting that it looks like a misspelling of, if there is one. */
  readonly suggestion: string | undefined
}

const PREFIX = 'EDGE_'
/** The commands of operators read it. */
const COMMAND_VARIABLES = ['EDGE_ACTOR', 'EDGE_ADMIN_URL']
/** Switches of our own tests and benchmarks. */
const INTERNAL = /^EDGE_(?:PROXY_WIRE$|TEST_|SOAK_)/

/** Returns the variables whose name begins with EDGE_, in upper or lower case, and that are no settings. An empty one counts as unset. */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): readonly UnknownVariable[] {
  const known = new Set([...Object.values<Setting<unknown>>(SETTINGS).map(({ env: name }) => name), ...COMMAND_VARIABLES])
  // All names share the prefix, so it says nothing about how alike two of them are.
  const words = new KnownWords(Array.from(known, withoutPrefix))
  const unknown: UnknownVariable[] = []
  for (const [name, value] of Object.entries(env)) {
    if (!value || !name.toUpperCase().startsWith(PREFIX) || known.has(name) || secretNameOf(name) !== undefined) continue
    if (INTERNAL.test(name) || isServiceLink(name, value)) continue
    const closest = words.closest(withoutPrefix(name))
    unknown.push({ name: shown(name), suggestion: closest === undefined ? undefined : `${PREFIX}${closest}` })
  }
  return unknown
}

export function unknownVariableText({ name, suggestion }: UnknownVariable): string {
  const advice = suggestion === undefined ? 'edge serve --help lists all settings' : `did you mean ${suggestion}?`
  return `${name} is not a setting and has no effect: ${advice}`
}

function withoutPrefix(name: string): string {
  return name.slice(PREFIX.length)
}

/** A name of other characters than settings have is quoted, and a long one is cut. */
function shown(name: string): string {
  return /^\w{1,64}$/.test(name) ? name : show(name)
}

const LINK_NAME = /_SERVICE_(?:HOST$|PORT$|PORT_)|_PORT_\d{1,5}_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?$/

/** Kubernetes describes every Service of a namespace to its containers in such variables: those of a Service named `edge-…` begin with EDGE_. */
function isServiceLink(name: string, value: string): boolean {
  return LINK_NAME.test(name) || (name.endsWith('_PORT') && isServiceAddress(value))
}
