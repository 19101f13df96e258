# Functions for operators: the outputs of a deployed stack, and changes of its parameters
# (docs/operations.md, "Restoring tables of DynamoDB"). Load them by: . infra/stack.sh

output() {
    aws cloudformation describe-stacks --stack-name turnstile --output text \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue"
}
change() {    # NAME=VALUE ...: these parameters; all others, the template and the code stay as they are
    local key given=("$@") parameters=()
    for key in $(aws cloudformation describe-stacks --stack-name turnstile --output text \
            --query "Stacks[0].Parameters[].ParameterKey"); do
        case " ${given[*]}" in
            *" $key="*) ;;
            *) parameters+=("ParameterKey=$key,UsePreviousValue=true") ;;
        esac
    done
    for key in "${given[@]}"; do
        parameters+=("ParameterKey=${key%%=*},ParameterValue=${key#*=}")
    done
    aws cloudformation update-stack --stack-name turnstile --use-previous-template \
        --capabilities CAPABILITY_IAM CAPABILITY_AUTO_EXPAND --parameters "${parameters[@]}"
    aws cloudformation wait stack-update-complete --stack-name turnstile
}
