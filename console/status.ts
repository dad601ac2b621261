import type { Status } from '../src/admin/api/instance-types.ts'
import { LIVE_MS, Poll } from './live.ts'

/** The shell asks for it; views only look. */
export const statusPoll = new Poll<Status>('status', LIVE_MS)
export const status = statusPoll.data
