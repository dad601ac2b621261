import type { DeskHandlers } from './desk-calls.ts'
import type { OverrideDesk } from './override-desk.ts'

/** What workers ask the main thread about overrides. */
export function overrideCalls(desk: OverrideDesk): Pick<DeskHandlers, 'list_overrides' | 'create_override' | 'end_override' | 'check_set'> {
  return {
    list_overrides: () => desk.list().map((listed) => JSON.stringify(listed)),
    create_override: (order) => desk.create(order),
    end_override: async (order) => void (await desk.end(order)),
    // It needs the schema of bundles, which takes long to load.
    check_set: async ({ rule, fields }) => (await import('../../policy/check-set-fields.ts')).checkSetFields(rule, fields),
  }
}
