import { policiesOf, pricesOf, routingOf, type SharedBundle } from '../../bundle/shared-bundle.ts'
import { readSettings } from '../../config/config.ts'
import { IpDatabases } from '../../ip-data/ip-databases.ts'
import { followIpFiles } from '../../ip-data/ip-files.ts'
import { PlanBuilder } from '../../policy/compile.ts'
import type { Plan } from '../../policy/plan.ts'
import type { Identification } from '../../request/descriptors.ts'
import type { SimulationOptions } from './simulation.ts'

/** Settings for reading requests. A simulation takes them from the environment, as the service does. */
const NAMES = ['trustedProxies', 'geoipFile', 'ipTypeFile', 'torExitsFile', 'gatewayHints', 'maxBodyBytes', 'storeBytes'] as const

type SimulatedConfig = ReturnType<typeof readSettings<(typeof NAMES)[number]>>['config']

export type SimulatedSettings = Omit<SimulationOptions, 'mode' | 'startMs'>

/** Reads the settings and, if a rule of a plan needs them, the IP files. Returns a list of sentences if something is wrong. */
export async function readSimulatedSettings(
  env: Readonly<Record<string, string | undefined>>,
  plans: readonly Plan[],
): Promise<SimulatedSettings | readonly string[]> {
  const { config, problems } = readSettings(NAMES, env)
  if (problems.length > 0) return problems
  const identification = await openIdentification(config, plans)
  if ('problems' in identification) return identification.problems
  return { identification, hasHints: config.gatewayHints, maxBodyBytes: config.maxBodyBytes, storeBytes: config.storeBytes }
}

async function openIdentification(
  config: SimulatedConfig,
  plans: readonly Plan[],
): Promise<Identification | { readonly problems: readonly string[] }> {
  const { trustedProxies, geoipFile: geoip, ipTypeFile: ipType, torExitsFile: torExits } = config
  const needed = plans.filter(({ keys }) => keys.some((key) => key.kind === 'ip' && key.fact !== 'address'))
  if (needed.length === 0) return { trustedProxies, ipFacts: {} }
  const problems: string[] = []
  const onProblem = (path: string, problem: string): void => void problems.push(`${path}: ${problem}`)
  const databases = new IpDatabases(onProblem)
  const files = followIpFiles({ geoip, ipType, torExits }, { onContent: (file) => databases.use(file), onLoaded: () => {}, onProblem })
  await files.started
  files.stop()
  for (const plan of needed) await databases.prepareFor(plan)
  return problems.length > 0 ? { problems } : { trustedProxies, ipFacts: databases.facts }
}

/** Compiles a bundle as workers do. */
export function planOf(bundle: SharedBundle): Plan {
  const builder = new PlanBuilder(bundle.version, pricesOf(bundle), bundle.callers, routingOf(bundle), bundle.usage)
  for (const policy of policiesOf(bundle)) builder.add(policy)
  return builder.build()
}
