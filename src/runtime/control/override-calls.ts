import type { ControlHandlers } from './control-calls.ts'
import type { OverrideControl } from './override-control.ts'

/** What workers ask the main thread about overrides. */
export function overrideCalls(control: OverrideControl): Pick<ControlHandlers, 'list_overrides' | 'create_override' | 'end_override'> {
  return {
    list_overrides: () => control.list().map((listed) => JSON.stringify(listed)),
    create_override: (order) => control.create(order),
    end_override: async (order) => void (await control.end(order)),
  }
}
