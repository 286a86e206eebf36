"""Mistakes in what guards a deployment: what may be read, what is shown, and to whom a secret is sent."""

from __future__ import annotations

from faults.mutants.killers import ALLOWED_ROOTS, APPLICATION_OUTPUT, APPROVAL, ENGINE_FILES, INHERITED, STARTED_RUNS
from faults.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="values-of-all-dags-read",
        breaks="The pages read jobs of DAGs that the user may not read.",
        invariant="I6",
        file="airflow_backfill_provider/plugin/started_runs.py",
        old="_created_jobs(session, XComModel.dag_id.in_(ids), unfinished)",
        new="_created_jobs(session, unfinished)",
        killers=(f"{STARTED_RUNS}::test_values_of_dags_that_were_not_requested_are_not_read",),
    ),
    Mutant(
        name="json-broken-in-one-row",
        breaks="A value that nests too deep ends the page for everybody.",
        invariant="I6",
        file="airflow_backfill_provider/plugin/written_jobs.py",
        old="except (ValueError, RecursionError):",
        new="except ValueError:",
        killers=(f"{STARTED_RUNS}::test_a_value_that_another_dag_wrote_hides_no_job",),
    ),
    Mutant(
        name="schema-files-anywhere",
        breaks="The file of a schema may lie outside of the allowed roots.",
        invariant="I6",
        file="airflow_backfill_provider/lake/store/allowed_roots.py",
        old="for name, file in job.upstream_files.items():",
        new="for name, file in ():",
        killers=(f"{ALLOWED_ROOTS}::test_files_of_schemas_lie_under_the_roots_too",),
    ),
    Mutant(
        name="links-not-followed",
        breaks="The path of a schema's file is normalized before its links are followed.",
        invariant="I6",
        file="airflow_backfill_provider/lake/store/allowed_roots.py",
        old="place = str(Path(file).resolve())",
        new="place = os.path.abspath(file)",
        killers=(f"{ALLOWED_ROOTS}::test_files_of_schemas_lie_under_the_roots_too",),
    ),
    Mutant(
        name="any-connection",
        breaks="A job may name a connection that is not allowed.",
        invariant="I6",
        file="airflow_backfill_provider/lake/store/allowed_roots.py",
        old="if connection_id not in allowed:",
        new="if not allowed:",
        killers=(f"{ALLOWED_ROOTS}::test_a_job_names_only_allowed_connections",),
    ),
    Mutant(
        name="another-definition-approved",
        breaks="A definition that changed after its plan was approved is created.",
        invariant="I6",
        file="airflow_backfill_provider/core/job/approval.py",
        old="if (now.job, now.definition) != (self.job, self.definition):",
        new="if now.job != self.job:",
        killers=(f"{APPROVAL}::test_another_definition_is_refused",),
    ),
    Mutant(
        name="token-to-any-listener",
        breaks="The engine's token is sent although another process listens on its port.",
        invariant="I6",
        file="airflow_backfill_provider/applications/local_engine/engine_files.py",
        old="if record.process.listeners(record.port) is not Listeners.OWN:",
        new="if record.process.listeners(record.port) is Listeners.NOBODY:",
        killers=(f"{ENGINE_FILES}::test_the_token_is_not_sent_to_another_process_at_the_engines_port",),
    ),
    Mutant(
        name="airflows-secrets-inherited",
        breaks="A Spark application inherits the secrets of Airflow's configuration.",
        invariant="I6",
        file="airflow_backfill_provider/applications/inherited_environment.py",
        old="_?AIRFLOW_(?!BACKFILL_)",
        new="_?AIRFLOW_CONN_",
        killers=(f"{INHERITED}::test_airflows_own_variables_are_left_out",),
    ),
    Mutant(
        name="message-amid-a-line",
        breaks="A row that Spark quotes is taken for a message of the application.",
        invariant="I6",
        file="airflow_backfill_provider/core/application_output.py",
        old="if text.startswith(ERROR_PREFIX):",
        new="if ERROR_PREFIX in text:",
        killers=(f"{APPLICATION_OUTPUT}::test_a_message_begins_its_line_because_a_row_may_quote_one",),
    ),
    Mutant(
        name="values-in-brackets-shown",
        breaks="A value in brackets is taken for an error condition of Spark.",
        invariant="I6",
        file="airflow_backfill_provider/core/application_output.py",
        old='known = _WITH_CONDITIONS.match(found["name"]) and found["condition"]',
        new='known = found["condition"]',
        killers=(f"{APPLICATION_OUTPUT}::test_an_error_in_the_output_is_named_without_its_message",),
    ),
)
