interface LevelProps {
  readonly remaining: number
  readonly limit: number
}

/** Shows how much is left as a bar. It is hidden from screen readers, because numbers beside it say the same. */
export function Level({ remaining, limit }: LevelProps) {
  return <meter class="level" aria-hidden="true" min={0} max={limit} low={limit / 10} optimum={limit} value={Math.max(0, remaining)} />
}
