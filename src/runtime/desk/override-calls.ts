import type { DeskHandlers } from './desk-calls.ts'
import type { OverrideDesk } from './override-desk.ts'

/** What workers ask the main thread about overrides. */
export function overrideCalls(desk: OverrideDesk): Pick<DeskHandlers, 'list_overrides' | 'create_override' | 'end_override'> {
  return {
    list_overrides: () => desk.list().map((listed) => JSON.stringify(listed)),
    create_override: (order) => desk.create(order),
    end_override: async (order) => void (await desk.end(order)),
  }
}
