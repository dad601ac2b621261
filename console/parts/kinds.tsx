import { formatNumber } from '../format.ts'

interface KindsProps<Name> {
  /** Describes the choice to screen readers. */
  readonly label: string
  readonly kinds: readonly { readonly name: Name; readonly title: string; readonly count?: number }[]
  readonly chosen: Name
  readonly onChoose: (name: Name) => void
}

/** Buttons of which one is pressed: what a list is limited to, with the number of each kind. */
export function Kinds<Name>({ label, kinds, chosen, onChoose }: KindsProps<Name>) {
  return (
    <ul class="kinds" aria-label={label}>
      {kinds.map(({ name, title, count }) => (
        <li key={title}>
          <button type="button" aria-pressed={chosen === name} onClick={() => onChoose(name)}>
            {title}
            {count !== undefined && (
              <>
                {' '}
                <span class="number">{formatNumber(count)}</span>
              </>
            )}
          </button>
        </li>
      ))}
    </ul>
  )
}
