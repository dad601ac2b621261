/** Distances between ticks, in seconds. All of them divide a day, so that ticks are at round times of it. */
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400]
/** Room for a label such as `14:03` or `17 Nov`. */
const LABEL_PX = 46
/** A phone shows at least so many, however narrow it is. */
const MIN_STEPS = 3
const HOUR_S = 3600

/** Returns the times of the ticks between two times, in seconds since the epoch. They are at round times of the operator's own zone. */
export function timeTicks(fromS: number, toS: number, widthPx: number): number[] {
  const step = tickStep(fromS, toS, widthPx)
  const day = new Date(fromS * 1000)
  day.setHours(0, 0, 0, 0)
  const ticks: number[] = []
  // An hour earlier, because the day may have been an hour shorter or longer so far.
  for (let i = Math.floor((fromS - day.getTime() / 1000 - HOUR_S) / step); ; i++) {
    const at = new Date(day.getFullYear(), day.getMonth(), day.getDate(), 0, 0, i * step).getTime() / 1000
    if (at > toS) return ticks
    // Where clocks are set forward, two round times are the same moment.
    if (at >= fromS && at > (ticks.at(-1) ?? 0)) ticks.push(at)
  }
}

function tickStep(fromS: number, toS: number, widthPx: number): number {
  const fitting = Math.max(MIN_STEPS, Math.floor(widthPx / LABEL_PX))
  return STEPS_S.find((step) => (toS - fromS) / step <= fitting) ?? STEPS_S.at(-1)!
}

/** Labels a tick with its time, such as `14:03`, or with the date if it is midnight. */
export function tickLabel(timeS: number): string {
  const date = new Date(timeS * 1000)
  if (date.getHours() + date.getMinutes() + date.getSeconds() === 0) return dayOf(date)
  return timeOf(date).replace(/:00$/, '')
}

/** Names moments of an axis: with their date if the axis crosses midnight, such as `17 Nov, 23:59:20`. */
export function momentLabel(timeS: number, { fromS, toS }: { readonly fromS: number; readonly toS: number }): string {
  const date = new Date(timeS * 1000)
  const crossesMidnight = new Date(fromS * 1000).toDateString() !== new Date(toS * 1000).toDateString()
  return crossesMidnight ? `${dayOf(date)}, ${timeOf(date)}` : timeOf(date)
}

function timeOf(date: Date): string {
  return date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
}

function dayOf(date: Date): string {
  return date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })
}
