import type { SimulatedRequest } from '../../../src/offline/simulation/simulated-doors.ts'
import { Simulation, type SimulationOptions } from '../../../src/offline/simulation/simulation.ts'
import { compileBundle } from '../../../src/policy/compile.ts'
import { parseBundle } from '../../../src/policy/parse.ts'
import { defaultIdentification } from '../../../src/request/descriptors.ts'

export const START_MS = Date.UTC(2026, 0, 15, 12)

/** A simulation of this bundle, with the defaults of `edge serve`. */
export function simulating(bundle: object, options: Partial<SimulationOptions> = {}): Simulation {
  const parsed = parseBundle(JSON.stringify(bundle))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return new Simulation(compileBundle(parsed.bundle), simulationOptions(options))
}

export function simulationOptions(options: Partial<SimulationOptions>): SimulationOptions {
  return {
    mode: 'decision_service',
    startMs: START_MS,
    storeBytes: 1024 ** 2,
    identification: defaultIdentification(),
    hasHints: false,
    maxBodyBytes: 16 * 1024 ** 2,
    ...options,
  }
}

/** A GET of `/` with these header fields, names and values in turn, unless the test says otherwise. */
export function simulated(fields: readonly string[] = [], request: Partial<SimulatedRequest> = {}): SimulatedRequest {
  return { method: 'GET', uri: '/', host: undefined, fields, body: undefined, ...request }
}
