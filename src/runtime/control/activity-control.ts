import { ActivitySampler, type ActivitySamplerParts } from './activity/activity-sampler.ts'
import type { ControlHandlers } from './control-calls.ts'
import { RecentActivity } from './recent-activity.ts'
import { RecentUsage } from './recent-usage.ts'

/** What the instance has done lately, noted for operators. */
export class ActivityControl {
  readonly recent: RecentActivity
  readonly sampler: ActivitySampler
  readonly usage: RecentUsage

  constructor(parts: ActivitySamplerParts) {
    const { memory, logger, clock } = parts
    this.recent = new RecentActivity({ memory, logger, nowMs: () => clock.nowMs() })
    this.sampler = new ActivitySampler(parts)
    this.usage = new RecentUsage({ memory, logger, clock })
  }

  stop(): void {
    this.recent.stop()
    this.sampler.stop()
    this.usage.stop()
  }
}

/** What workers ask the main thread about it. Undefined without an admin token: then nobody asks. */
export function activityCalls(control: ActivityControl | undefined): Pick<ControlHandlers, 'activity' | 'recent_samples' | 'usage'> {
  return {
    activity: (policies) => control!.recent.of(policies),
    recent_samples: (since) => control!.sampler.since(since),
    usage: (rules) => control!.usage.of(rules),
  }
}
