import { addressOf } from '../navigation.ts'
import { printable } from '../printable.ts'

interface PolicyLinksProps {
  readonly policy: string
  readonly rule?: string | undefined
}

/** Names a policy and one of its rules, as links to the view Policies. */
export function PolicyLinks({ policy, rule }: PolicyLinksProps) {
  return (
    <span>
      <a href={addressOf('policies', { policy })}>{printable(policy)}</a>
      {rule !== undefined && (
        <>
          {' · '}
          <a href={addressOf('policies', { policy, rule })}>{printable(rule)}</a>
        </>
      )}
    </span>
  )
}
