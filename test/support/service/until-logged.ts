import { until } from '../until.ts'

interface Logging {
  logged(name: string): Record<string, unknown>[]
}

/**
 * Waits until the log has so many entries of this kind, and returns them all. What is seen through a socket may come before the line that tells of it: a
 * process writes its log to a pipe, a worker may log after it has responded, and the main thread hears of what workers did.
 */
export async function untilLogged(source: Logging, name: string, count = 1): Promise<Record<string, unknown>[]> {
  await until(() => source.logged(name).length >= count)
  return source.logged(name)
}
